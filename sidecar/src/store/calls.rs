//! The table of calls: what filters report of guarded agents, so that it can be run through the detector again.

use agent_kill_switch::entries::{ITEM_BYTES, Item, VERSION};
use agent_kill_switch::wire::Counting;

use super::statement::Argument;
use super::{Result, Row, Statement, Store, StoreError, Tx};
use crate::model::{Millis, StoredCall};

/// Rows written by one statement. Each number of rows is another prepared statement, so there are only a few of them.
const ROWS_PER_STATEMENT: usize = 20;

/// An encoded item.
pub type ItemBytes = [u8; ITEM_BYTES];

/// What is new about one agent.
#[derive(Clone, Debug, Default)]
pub struct NewCalls {
    /// Calls, in the order of their arrival.
    pub calls: Vec<NewCall>,
    /// Answers to calls that were stored before.
    pub answers: Vec<NewAnswer>,
}

/// A call that is not stored yet.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// The Envoy that reported it.
    pub envoy: String,
    /// The worker that reported it.
    pub sender: String,
    /// The number of the call among those of the worker.
    pub number: u32,
    /// When it came.
    pub at_ms: Millis,
    /// The call.
    pub item: ItemBytes,
    /// The answer to it, if it is known.
    pub answer: Option<ItemBytes>,
}

/// An answer to a stored call.
#[derive(Clone, Debug)]
pub struct NewAnswer {
    /// The worker that reported it.
    pub sender: String,
    /// The number of its call.
    pub number: u32,
    /// The answer.
    pub item: ItemBytes,
}

fn call(row: &Row) -> Result<StoredCall> {
    let answer: Option<Vec<u8>> = row.get("answer")?;
    let answer = answer.map(|bytes| item("answer", &bytes)).transpose()?;
    Ok(StoredCall {
        generation: row.integer("generation")?,
        counting: row.word("counting", |word| word.parse().ok())?,
        envoy: row.text("envoy")?,
        sender: row.text("sender")?,
        at_ms: row.integer("at_ms")?,
        item: item("item", &row.get::<Vec<u8>>("item")?)?,
        end: answer.map(|item| (item.call.answer, item.call.at_ms)),
    })
}

fn item(column: &'static str, bytes: &[u8]) -> Result<Item> {
    let decoded = bytes.try_into().ok().and_then(Item::decode);
    decoded.ok_or_else(|| StoreError::Corrupt { column, value: format!("{} bytes that are no item", bytes.len()) })
}

impl Store {
    /// Returns the latest calls of an agent, in the order of their arrival. Those of another version are left out.
    pub async fn calls(&self, agent_id: &str, limit: u32) -> Result<Vec<StoredCall>> {
        let statement = Statement::new(
            "SELECT generation, counting, envoy, sender, at_ms, item, answer FROM calls
             WHERE agent_id = $1 AND version = $2 ORDER BY id DESC LIMIT $3",
        );
        let statement = statement.bind(agent_id).bind(u32::from(VERSION)).bind(limit);
        self.database.reader().await?.rows(statement).await?.iter().rev().map(call).collect()
    }
}

impl Tx {
    /// Adds calls and answers, and deletes all but the latest `keep` calls of the agent. At most twice as many are deleted
    /// as are added: if `keep` was lowered, the rest is deleted little by little.
    pub async fn add_calls(&mut self, agent_id: &str, new: &NewCalls, counting: Counting, keep: u32) -> Result<()> {
        for chunk in new.calls.chunks(ROWS_PER_STATEMENT) {
            let mut insert = Statement::new(
                "INSERT INTO calls
                     (agent_id, generation, version, counting, envoy, sender, number, at_ms, item, answer)
                 VALUES",
            );
            for (index, call) in chunk.iter().enumerate() {
                insert = if index == 0 { insert } else { insert.push(",") }.push_list([
                    Argument::from(agent_id),
                    call.generation.into(),
                    u32::from(VERSION).into(),
                    counting.as_str().into(),
                    (&call.envoy).into(),
                    (&call.sender).into(),
                    call.number.into(),
                    call.at_ms.into(),
                    call.item.as_slice().into(),
                    call.answer.as_ref().map(<[u8; ITEM_BYTES]>::as_slice).into(),
                ]);
            }
            self.connection().run(insert.push("ON CONFLICT (agent_id, sender, number) DO NOTHING")).await?;
        }
        for chunk in new.answers.chunks(ROWS_PER_STATEMENT) {
            let mut update = Statement::new("WITH late (sender, number, answer) AS (VALUES");
            for (index, answer) in chunk.iter().enumerate() {
                let row = [(&answer.sender).into(), answer.number.into(), answer.item.as_slice().into()];
                update = if index == 0 { update } else { update.push(",") }.push_list(row);
            }
            let update = update.push(") UPDATE calls SET answer = late.answer FROM late").push_bind(
                "WHERE calls.agent_id = ? AND calls.sender = late.sender AND calls.number = late.number",
                agent_id,
            );
            self.connection().run(update).await?;
        }
        if new.calls.is_empty() {
            return Ok(());
        }
        let trim = Statement::new(
            "DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE agent_id = $1 AND id <=
                 (SELECT id FROM calls WHERE agent_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)
             ORDER BY id LIMIT $3)",
        );
        let at_most = 2 * new.calls.len() as u64;
        self.connection().run(trim.bind(agent_id).bind(keep).bind(at_most)).await.map(drop)
    }

    /// Deletes every call of an agent.
    pub(super) async fn delete_calls(&mut self, agent_id: &str) -> Result<()> {
        let statement = Statement::new("DELETE FROM calls WHERE agent_id = $1").bind(agent_id);
        self.connection().run(statement).await.map(drop)
    }
}
