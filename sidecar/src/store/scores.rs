//! The table of scores, from which the timeline of an agent is drawn.

use agent_kill_switch::wire::{ScoreSample, Signals};

use super::statement::{Argument, chunks};
use super::{Result, Row, Statement, Store, Tx};
use crate::model::Millis;

fn score(row: &Row) -> Result<ScoreSample> {
    Ok(ScoreSample {
        at_ms: row.integer("at_ms")?,
        sequence: row.integer("sequence")?,
        score: row.get("score")?,
        signals: Signals {
            similar_prompts: row.integer("similar_prompts")?,
            similar_responses: row.integer("similar_responses")?,
            repeated_tool_calls: row.integer("repeated_tool_calls")?,
            failures_in_a_row: row.integer("failures_in_a_row")?,
            repeated_steps: row.integer("repeated_steps")?,
        },
    })
}

impl Store {
    /// Returns the latest scores of an agent at or after `since_ms`, oldest first. They are in the order of the calls, and
    /// not in that of their arrival: each worker of an Envoy reports its own.
    pub async fn scores(&self, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>> {
        let statement = Statement::new(
            "SELECT at_ms, sequence, score, similar_prompts, similar_responses, repeated_tool_calls, failures_in_a_row,
                 repeated_steps
             FROM scores WHERE agent_id = $1 AND at_ms >= $2 ORDER BY at_ms DESC, sequence DESC, id DESC LIMIT $3",
        );
        let statement = statement.bind(agent_id).bind(since_ms).bind(limit);
        self.database.reader().await?.rows(statement).await?.iter().rev().map(score).collect()
    }
}

impl Tx {
    /// Appends scores of agents and deletes all but the latest `keep` scores of each of them. At most twice as many are
    /// deleted as are appended: if `keep` was lowered, the rest is deleted little by little.
    pub async fn append_scores(&mut self, new: &[(&str, &[ScoreSample])], keep: u32) -> Result<()> {
        let row = |agent_id: &str, sample: &ScoreSample| {
            let signals = &sample.signals;
            [
                Argument::from(agent_id),
                sample.at_ms.into(),
                sample.sequence.into(),
                sample.score.into(),
                signals.similar_prompts.into(),
                signals.similar_responses.into(),
                signals.repeated_tool_calls.into(),
                signals.failures_in_a_row.into(),
                signals.repeated_steps.into(),
            ]
        };
        let rows = new.iter().flat_map(|(id, scores)| scores.iter().map(|sample| row(id, sample))).collect();
        for rows in chunks(rows) {
            let insert = Statement::new(
                "INSERT INTO scores
                     (agent_id, at_ms, sequence, score, similar_prompts, similar_responses, repeated_tool_calls,
                      failures_in_a_row, repeated_steps)
                 VALUES",
            );
            self.connection().run(insert.push_lists(rows)).await?;
        }
        for (agent_id, scores) in new {
            let trim = Statement::new(
                "DELETE FROM scores WHERE id IN (SELECT id FROM scores WHERE agent_id = $1 AND (at_ms, sequence, id) <=
                     (SELECT at_ms, sequence, id FROM scores WHERE agent_id = $1
                      ORDER BY at_ms DESC, sequence DESC, id DESC LIMIT 1 OFFSET $2)
                 ORDER BY at_ms, sequence, id LIMIT $3)",
            );
            let at_most = 2 * scores.len() as u64;
            self.connection().run(trim.bind(*agent_id).bind(keep).bind(at_most)).await?;
        }
        Ok(())
    }
}
