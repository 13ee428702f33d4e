//! The table of calls: what filters report of guarded agents, so that it can be run through the detector again.
//!
//! A row has all that one worker reported within about a second. That makes a call much cheaper than a row of its own would.

use std::collections::BTreeMap;

use agent_kill_switch::entries::VERSION;
use agent_kill_switch::wire::Counting;

use super::agents::rows_of;
use super::statement::{Argument, chunks};
use super::{Result, Row, Statement, Store, Tx};
use crate::model::CallBatch;

/// Old calls are deleted each time that an eighth of those that are kept has been added, so that not every call costs a
/// deletion.
const TRIMS: u64 = 8;

/// What has to be known of an agent before its calls are added.
struct Known {
    counting: String,
    /// How many calls have been added so far.
    total: u64,
}

fn batch(row: &Row) -> Result<(Counting, CallBatch)> {
    let batch = CallBatch {
        generation: row.integer("generation")?,
        envoy: row.text("envoy")?,
        sender: row.text("sender")?,
        sent_ms: row.integer("sent_ms")?,
        arrived_ms: row.integer("arrived_ms")?,
        items: row.get("items")?,
    };
    Ok((row.word("counting", |word| word.parse().ok())?, batch))
}

impl Store {
    /// Returns the stored calls of an agent in the order in which they were stored, each with how repeats were counted.
    /// Those of another version are left out.
    pub async fn calls(&self, agent_id: &str) -> Result<Vec<(Counting, CallBatch)>> {
        let statement = Statement::new(
            "SELECT generation, counting, envoy, sender, sent_ms, arrived_ms, items FROM calls
             WHERE agent_id = $1 AND version = $2 ORDER BY id",
        );
        let statement = statement.bind(agent_id).bind(u32::from(VERSION));
        self.database.reader().await?.rows(statement).await?.iter().map(batch).collect()
    }
}

impl Tx {
    /// Adds calls of agents that exist. Of each agent at least the latest `keep` calls are kept, and an eighth more at most,
    /// apart from those of the row that has the first of them.
    pub async fn add_calls(&mut self, new: &BTreeMap<String, Vec<CallBatch>>, keep: u32) -> Result<()> {
        let known = self.known(&new.keys().map(String::as_str).collect::<Vec<_>>()).await?;
        let (mut rows, mut old) = (Vec::new(), Vec::new());
        let step = (u64::from(keep) / TRIMS).max(1);
        for (agent_id, Known { counting, total: before }) in &known {
            let batches = new.get(agent_id).map_or(&[][..], Vec::as_slice);
            // It is the same for all of them: none is older than the others.
            let total = before + batches.iter().map(CallBatch::calls).sum::<u64>();
            for batch in batches {
                rows.push([
                    Argument::from(agent_id),
                    u32::from(VERSION).into(),
                    counting.into(),
                    batch.generation.into(),
                    (&batch.envoy).into(),
                    (&batch.sender).into(),
                    batch.sent_ms.into(),
                    batch.arrived_ms.into(),
                    batch.items.as_slice().into(),
                    total.into(),
                ]);
            }
            if total / step > before / step {
                old.push((agent_id, total.saturating_sub(keep.into())));
            }
        }
        for rows in chunks(rows) {
            let insert = Statement::new(
                "INSERT INTO calls
                     (agent_id, version, counting, generation, envoy, sender, sent_ms, arrived_ms, items, total)
                 VALUES",
            );
            self.connection().run(insert.push_lists(rows)).await?;
        }
        for (agent_id, total) in old {
            // If `keep` was lowered, the rest is deleted little by little.
            let trim = Statement::new(
                "DELETE FROM calls WHERE id IN
                     (SELECT id FROM calls WHERE agent_id = $1 AND total <= $2 ORDER BY total LIMIT $3)",
            );
            self.connection().run(trim.bind(agent_id).bind(total).bind(4 * step)).await?;
        }
        Ok(())
    }

    /// Returns what is known of those agents that exist.
    async fn known(&mut self, agent_ids: &[&str]) -> Result<BTreeMap<String, Known>> {
        let select = "SELECT agent_id, counting,
                 COALESCE((SELECT MAX(total) FROM calls WHERE calls.agent_id = agents.agent_id), 0) AS total
             FROM agents WHERE NOT deleted AND agent_id IN";
        let rows = rows_of(self.connection(), select, agent_ids).await?;
        let known = |row: &Row| {
            Ok((row.text("agent_id")?, Known { counting: row.text("counting")?, total: row.integer("total")? }))
        };
        rows.iter().map(known).collect()
    }

    /// Deletes every call of an agent.
    pub(super) async fn delete_calls(&mut self, agent_id: &str) -> Result<()> {
        let statement = Statement::new("DELETE FROM calls WHERE agent_id = $1").bind(agent_id);
        self.connection().run(statement).await.map(drop)
    }
}
