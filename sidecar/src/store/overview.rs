//! What the overview and `kill-switch top` show of all agents at once: counts and rankings, made by the database.

use agent_kill_switch::wire::{Action, DeactivatedBy, WHOLE_AGENT};

use super::{Result, Row, Statement, Store};
use crate::clock::CLOCK_TOLERANCE_MS;
use crate::model::{EventType, Millis};

/// How many agents have the same state and the same settings of the kill switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCount {
    /// Whether they are active.
    pub active: bool,
    /// Who deactivated them.
    pub deactivated_by: Option<DeactivatedBy>,
    /// Whether their kill switch is on.
    pub kill_switch_enabled: bool,
    /// What it does.
    pub action: Action,
    /// How many they are.
    pub count: u64,
}

/// How many events of a type were recorded in one of several equal periods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// The type.
    pub event_type: EventType,
    /// The number of the period, from 0 on.
    pub period: usize,
    /// How many there were.
    pub count: u64,
}

fn agent_count(row: &Row) -> Result<AgentCount> {
    let by: Option<String> = row.get("deactivated_by")?;
    Ok(AgentCount {
        active: row.get("active")?,
        deactivated_by: by.map(|_| row.word("deactivated_by", |word| word.parse().ok())).transpose()?,
        kill_switch_enabled: row.get("kill_switch_enabled")?,
        action: row.word("action", |word| word.parse().ok())?,
        count: row.integer("count")?,
    })
}

fn event_count(row: &Row) -> Result<EventCount> {
    Ok(EventCount {
        event_type: row.word("event_type", EventType::parse)?,
        period: row.integer("period")?,
        count: row.integer("count")?,
    })
}

impl Store {
    /// Counts the agents by state and settings. Tombstones do not count.
    pub async fn count_agents(&self) -> Result<Vec<AgentCount>> {
        let statement = Statement::new(
            "SELECT active, deactivated_by, kill_switch_enabled, action, count(*) AS count FROM agents
             WHERE NOT deleted GROUP BY active, deactivated_by, kill_switch_enabled, action",
        );
        self.database.reader().await?.rows(statement).await?.iter().map(agent_count).collect()
    }

    /// Counts the loops that were stopped, or would have been, from `since_ms` on and before `until_ms`, in periods of this
    /// length.
    pub async fn count_loops(&self, since_ms: Millis, until_ms: Millis, period_ms: Millis) -> Result<Vec<EventCount>> {
        let statement = Statement::new(
            "SELECT event_type, (at_ms - $1) / $3 AS period, count(*) AS count FROM events
             WHERE event_type IN ('kill_switch', 'blocked', 'would_kill') AND at_ms >= $1 AND at_ms < $2
             GROUP BY event_type, (at_ms - $1) / $3",
        );
        let statement = statement.bind(since_ms).bind(until_ms).bind(period_ms.max(1));
        self.database.reader().await?.rows(statement).await?.iter().map(event_count).collect()
    }

    /// Counts the conversations that are stopped at this time.
    pub async fn count_stopped_sessions(&self, now_ms: Millis) -> Result<u64> {
        let statement = Statement::new(
            "SELECT count(*) AS count FROM stopped_sessions JOIN agents ON agents.agent_id = stopped_sessions.agent_id
                 AND agents.generation = stopped_sessions.generation
             WHERE told_until_ms > $1 AND until_ms > $1 AND released_ms IS NULL AND stopped_ms <= $2
                 AND session_key <> $3 AND NOT deleted",
        );
        let latest_ms = now_ms.saturating_add(CLOCK_TOLERANCE_MS);
        let statement = statement.bind(now_ms).bind(latest_ms).bind(WHOLE_AGENT);
        self.database.reader().await?.row(statement).await?.integer("count")
    }

    /// Counts the notices since `since_ms` that were given up, and those that have failed and are attempted again. Tests and
    /// notices of rules that were deleted do not count.
    pub async fn count_failed_deliveries(&self, since_ms: Millis) -> Result<(u64, u64)> {
        let statement = Statement::new(
            "SELECT count(CASE WHEN status = 'given_up' THEN 1 END) AS given_up,
                 count(CASE WHEN status = 'pending' AND attempts > 0 THEN 1 END) AS retrying
             FROM alert_deliveries WHERE created_ms >= $1 AND kind <> 'test'
                 AND rule_id IN (SELECT rule_id FROM alert_rules)",
        );
        let row = self.database.reader().await?.row(statement.bind(since_ms)).await?;
        Ok((row.integer("given_up")?, row.integer("retrying")?))
    }

    /// Returns the ids of agents, those first whose latest score comes closest to their threshold. The scores of agents that
    /// were not seen since `since_ms` do not count: these agents come last, in the order in which they were last seen.
    pub async fn ranked_agents(&self, since_ms: Millis, limit: u32) -> Result<Vec<String>> {
        let statement = Statement::new(
            "SELECT agent_id FROM (
                 SELECT agent_id, kill_switch_threshold, last_seen_ms, CASE WHEN last_seen_ms >= $1 THEN
                     (SELECT score FROM scores WHERE scores.agent_id = agents.agent_id
                      ORDER BY at_ms DESC, sequence DESC, id DESC LIMIT 1) END AS score
                 FROM agents WHERE NOT deleted) AS latest
             ORDER BY COALESCE(score / kill_switch_threshold, -1) DESC, COALESCE(last_seen_ms, 0) DESC, agent_id
             LIMIT $2",
        );
        let rows = self.database.reader().await?.rows(statement.bind(since_ms).bind(limit)).await?;
        rows.iter().map(|row| row.text("agent_id")).collect()
    }
}
