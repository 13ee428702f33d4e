//! The table of tokens and refused calls, by agent, day and model.

use agent_kill_switch::wire::ModelUsage;

use super::{Result, Row, Statement, Store, Tx};
use crate::model::UsageDay;

/// How many models of one agent and day are told apart. The others are added up under the empty name.
const MODELS_PER_DAY: u64 = 20;

/// Groups rows, which are ordered by day.
fn days(rows: &[Row]) -> Result<Vec<UsageDay>> {
    let mut days: Vec<UsageDay> = Vec::new();
    for row in rows {
        let number = row.integer("day")?;
        if days.last().is_none_or(|last| last.day != number) {
            days.push(UsageDay { day: number, ..UsageDay::default() });
        }
        let Some(day) = days.last_mut() else { continue };
        day.refused += row.integer::<u64>("refused")?;
        let usage = ModelUsage {
            model: row.text("model")?,
            calls: row.integer("calls")?,
            input_tokens: row.integer("input_tokens")?,
            output_tokens: row.integer("output_tokens")?,
        };
        if usage.calls > 0 {
            day.models.push(usage);
        }
    }
    Ok(days)
}

impl Store {
    /// Returns the days of an agent from `since_day` on, oldest first. Days without traffic are left out.
    pub async fn usage_of(&self, agent_id: &str, since_day: u64) -> Result<Vec<UsageDay>> {
        let statement = Statement::new(
            "SELECT day, model, calls, input_tokens, output_tokens, refused FROM usage
             WHERE agent_id = $1 AND day >= $2 ORDER BY day, model",
        );
        days(&self.database.reader().await?.rows(statement.bind(agent_id).bind(since_day)).await?)
    }

    /// Like [`Store::usage_of`], for all agents together.
    pub async fn usage(&self, since_day: u64) -> Result<Vec<UsageDay>> {
        let statement = Statement::new(
            "SELECT day, model, CAST(sum(calls) AS BIGINT) AS calls, CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
                 CAST(sum(output_tokens) AS BIGINT) AS output_tokens, CAST(sum(refused) AS BIGINT) AS refused
             FROM usage WHERE day >= $1 GROUP BY day, model ORDER BY day, model",
        );
        days(&self.database.reader().await?.rows(statement.bind(since_day)).await?)
    }
}

impl Tx {
    /// Adds to what an agent used and was refused on a day, with one statement for each model.
    pub async fn add_usage(&mut self, agent_id: &str, day: &UsageDay) -> Result<()> {
        let mut models = day.models.clone();
        if day.refused > 0 && models.iter().all(|usage| !usage.model.is_empty()) {
            models.push(ModelUsage::default());
        }
        for usage in models {
            let upsert = Statement::new(
                "INSERT INTO usage (agent_id, day, model, calls, input_tokens, output_tokens, refused)
                 SELECT $1, $2, CASE WHEN (SELECT count(*) FROM usage WHERE agent_id = $1 AND day = $2) < $8
                         OR EXISTS (SELECT 1 FROM usage WHERE agent_id = $1 AND day = $2 AND model = $3)
                     THEN $3 ELSE '' END, $4, $5, $6, $7
                 WHERE true
                 ON CONFLICT (agent_id, day, model) DO UPDATE SET
                     calls = usage.calls + excluded.calls, input_tokens = usage.input_tokens + excluded.input_tokens,
                     output_tokens = usage.output_tokens + excluded.output_tokens,
                     refused = usage.refused + excluded.refused",
            );
            let refused = if usage.model.is_empty() { day.refused } else { 0 };
            let upsert = upsert.bind(agent_id).bind(day.day).bind(&usage.model).bind(usage.calls);
            let upsert = upsert.bind(usage.input_tokens).bind(usage.output_tokens).bind(refused).bind(MODELS_PER_DAY);
            self.connection().run(upsert).await?;
        }
        Ok(())
    }
}
