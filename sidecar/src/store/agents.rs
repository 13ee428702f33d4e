//! The table of agents.
//!
//! A listing contains only the conditions that were asked for, so that each one can use the index that fits it. A
//! search looks at every agent: with ten thousand of them that takes a few milliseconds, and an index for substrings
//! would make every write slower.

use std::collections::HashSet;

use agent_kill_switch::wire::{AgentPolicy, DeactivatedBy};
use serde_json::json;

use super::row::{leave_out, readable};
use super::statement::{Argument, chunks};
use super::{Connection, Dialect, Result, Row, Statement, Store, Tx};
use crate::model::{Agent, Millis};

/// Which agents to list, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct AgentQuery {
    /// Only ids after this one.
    pub after: Option<String>,
    /// Only agents whose id or name contains this text. The case of ASCII letters is ignored.
    pub search: Option<String>,
    /// Only active or only inactive agents.
    pub active: Option<bool>,
    /// Only agents that were deactivated by this.
    pub deactivated_by: Option<DeactivatedBy>,
    /// Only agents with the kill switch on, or off.
    pub kill_switch_enabled: Option<bool>,
    /// Only agents whose loops are only recorded, or only those whose loops are stopped.
    pub observing: Option<bool>,
    /// The largest number of agents to return.
    pub limit: u32,
}

/// A page of changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The agents and tombstones. Active agents that cannot be read are left out. Of inactive ones, at least that is said.
    pub agents: Vec<Agent>,
    /// The revision of the last row of the page, whether it can be read or not. `None` if there is none.
    pub last_rev: Option<u64>,
    /// Whether there are further changes.
    pub more: bool,
}

fn select(rest: &'static str) -> Statement {
    // Columns are named here and in the other tables. With `*`, a column that a newer replica adds would make the
    // prepared statements of older replicas fail.
    let columns = "SELECT agent_id, name, active, deactivated_by, generation, kill_switch_enabled,
         kill_switch_window_size, kill_switch_threshold, action, counting, retry_after_seconds, idle_reset_seconds,
         scope, session_stop_seconds, escalate_after, answer_loop, tools, kill_reason, first_seen_ms, last_seen_ms, rev,
         discovered, deleted, managed_by, managed_rule
         FROM agents";
    Statement::new(columns).push(rest)
}

fn agent(row: &Row) -> Result<Agent> {
    let is_deactivated = row.get::<Option<String>>("deactivated_by")?.is_some();
    let deactivated_by = is_deactivated.then(|| row.word("deactivated_by", |word| word.parse().ok())).transpose()?;
    Ok(Agent {
        policy: AgentPolicy {
            agent_id: row.text("agent_id")?,
            active: row.get("active")?,
            deactivated_by,
            generation: row.integer("generation")?,
            kill_switch_enabled: row.get("kill_switch_enabled")?,
            kill_switch_window_size: row.integer("kill_switch_window_size")?,
            kill_switch_threshold: row.get("kill_switch_threshold")?,
            action: row.word("action", |word| word.parse().ok())?,
            counting: row.word("counting", |word| word.parse().ok())?,
            retry_after_seconds: row.integer("retry_after_seconds")?,
            idle_reset_seconds: row.integer("idle_reset_seconds")?,
            scope: row.word("scope", |word| word.parse().ok())?,
            session_stop_seconds: row.integer("session_stop_seconds")?,
            escalate_after: row.integer("escalate_after")?,
            answer_loop: row.word("answer_loop", |word| word.parse().ok())?,
            tools: row.word("tools", |json| serde_json::from_str(json).ok())?,
            reason: row.get("kill_reason")?,
            stopped_sessions: Vec::new(),
        },
        name: row.text("name")?,
        first_seen_ms: row.optional_integer("first_seen_ms")?,
        last_seen_ms: row.optional_integer("last_seen_ms")?,
        managed_by: row.get("managed_by")?,
        managed_rule: row.get("managed_rule")?,
        rev: row.integer("rev")?,
        discovered: row.get("discovered")?,
        deleted: row.get("deleted")?,
    })
}

/// Returns the agent of a row. One whose settings cannot be read stays stopped if it is.
fn agent_or_stop(row: &Row) -> Result<Agent> {
    let error = match agent(row) {
        Err(error) if error.is_permanent() => error,
        other => return other,
    };
    let (active, deleted): (bool, bool) = (row.get("active")?, row.get("deleted")?);
    if active && !deleted {
        return Err(error);
    }
    let mut stopped = Agent::new(&row.text("agent_id")?, row.integer("generation")?);
    leave_out("agents", stopped.id(), &error);
    stopped.policy.active = active;
    stopped.policy.deactivated_by = (!active).then_some(DeactivatedBy::Manual);
    Ok(Agent { deleted, rev: row.integer("rev")?, ..stopped })
}

impl Store {
    /// Returns an agent. Tombstones are not found.
    pub async fn agent(&self, agent_id: &str) -> Result<Option<Agent>> {
        let statement = select("WHERE agent_id = $1 AND NOT deleted").bind(agent_id);
        self.database.reader().await?.optional_row(statement).await?.as_ref().map(agent).transpose()
    }

    /// Returns a page of agents, without tombstones. Agents that cannot be read are left out.
    pub async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        let (mut agents, mut query) = (Vec::new(), query.clone());
        loop {
            let rows = self.agent_rows(&query).await?;
            let page = readable("agents", "agent_id", &rows, agent)?;
            let left_out = u32::try_from(rows.len() - page.len()).unwrap_or(u32::MAX);
            agents.extend(page);
            if left_out == 0 || rows.len() < query.limit as usize {
                return Ok(agents);
            }
            // The page is filled with the next ones.
            query.limit = left_out;
            query.after = rows.last().map(|row| row.text("agent_id")).transpose()?;
        }
    }

    async fn agent_rows(&self, query: &AgentQuery) -> Result<Vec<Row>> {
        let statement = select("WHERE NOT deleted")
            .and("agent_id > ?", query.after.as_deref())
            .and(
                r"(lower(agent_id) LIKE ? ESCAPE '\' OR lower(name) LIKE ? ESCAPE '\')",
                query.search.as_deref().map(contains),
            )
            .and("active = ?", query.active)
            .and("deactivated_by = ?", query.deactivated_by.map(DeactivatedBy::as_str))
            .and("kill_switch_enabled = ?", query.kill_switch_enabled)
            .and("(action = 'observe') = ?", query.observing)
            .push_bind("ORDER BY agent_id LIMIT ?", query.limit);
        self.database.reader().await?.rows(statement).await
    }

    /// Returns the agents and tombstones that changed after the revision `since`, in the order of their revisions.
    pub async fn changes(&self, since: u64, limit: u32) -> Result<Changes> {
        let statement = select("WHERE rev > $1 ORDER BY rev LIMIT $2").bind(since).bind(u64::from(limit) + 1);
        let mut rows = self.database.reader().await?.rows(statement).await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last_rev = rows.last().map(|row| row.integer("rev")).transpose()?;
        Ok(Changes { agents: readable("agents", "agent_id", &rows, agent_or_stop)?, last_rev, more })
    }

    /// Counts the agents and alert rules that cannot be read.
    pub async fn unreadable_rows(&self) -> Result<usize> {
        let mut reader = self.database.reader().await?;
        let agents = reader.rows(select("WHERE NOT deleted")).await?;
        let agents = agents.iter().filter(|row| agent(row).is_err()).count();
        Ok(agents + super::alerts::unreadable_rules(reader.as_mut()).await?)
    }

    /// Returns those of the ids that belong to an agent. Tombstones do not count.
    pub async fn existing_agents<'a>(&self, ids: &[&'a str]) -> Result<HashSet<&'a str>> {
        existing_agents(self.database.reader().await?.as_mut(), ids).await
    }

    /// Counts the agents that only traffic created.
    pub async fn discovered_agents(&self) -> Result<u64> {
        discovered_agents(self.database.reader().await?.as_mut(), self.database.dialect()).await
    }
}

impl Tx {
    /// Returns those of the ids that belong to an agent. Tombstones do not count.
    pub async fn existing_agents<'a>(&mut self, ids: &[&'a str]) -> Result<HashSet<&'a str>> {
        existing_agents(self.connection(), ids).await
    }

    /// Returns an agent or its tombstone.
    pub async fn agent(&mut self, agent_id: &str) -> Result<Option<Agent>> {
        let statement = select("WHERE agent_id = $1").bind(agent_id);
        self.connection().optional_row(statement).await?.as_ref().map(agent).transpose()
    }

    /// Returns all agents and tombstones, in the order of their ids.
    pub async fn all_agents(&mut self) -> Result<Vec<Agent>> {
        self.connection().rows(select("ORDER BY agent_id")).await?.iter().map(agent).collect()
    }

    /// Writes the whole agent under the next revision, and returns that revision. `agent.rev` is ignored.
    pub async fn save_agent(&mut self, agent: &Agent) -> Result<u64> {
        let rev = self.next_revision().await?;
        let policy = &agent.policy;
        let statement = Statement::new(
            "INSERT INTO agents (agent_id, name, active, deactivated_by, generation, kill_switch_enabled,
                 kill_switch_window_size, kill_switch_threshold, action, counting, retry_after_seconds,
                 idle_reset_seconds, scope, session_stop_seconds, escalate_after, answer_loop, tools, kill_reason,
                 first_seen_ms, last_seen_ms, rev, discovered, deleted, managed_by, managed_rule)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                 $23, $24, $25)
             ON CONFLICT (agent_id) DO UPDATE SET name = excluded.name, active = excluded.active,
                 deactivated_by = excluded.deactivated_by, generation = excluded.generation,
                 kill_switch_enabled = excluded.kill_switch_enabled,
                 kill_switch_window_size = excluded.kill_switch_window_size,
                 kill_switch_threshold = excluded.kill_switch_threshold, action = excluded.action,
                 counting = excluded.counting, retry_after_seconds = excluded.retry_after_seconds,
                 idle_reset_seconds = excluded.idle_reset_seconds, scope = excluded.scope,
                 session_stop_seconds = excluded.session_stop_seconds, escalate_after = excluded.escalate_after,
                 answer_loop = excluded.answer_loop, tools = excluded.tools, kill_reason = excluded.kill_reason,
                 first_seen_ms = excluded.first_seen_ms, last_seen_ms = excluded.last_seen_ms, rev = excluded.rev,
                 discovered = excluded.discovered, deleted = excluded.deleted, managed_by = excluded.managed_by,
                 managed_rule = excluded.managed_rule",
        )
        .bind(&policy.agent_id)
        .bind(&agent.name)
        .bind(policy.active)
        .bind(policy.deactivated_by.map(DeactivatedBy::as_str))
        .bind(policy.generation)
        .bind(policy.kill_switch_enabled)
        .bind(policy.kill_switch_window_size)
        .bind(policy.kill_switch_threshold)
        .bind(policy.action.as_str())
        .bind(policy.counting.as_str())
        .bind(policy.retry_after_seconds)
        .bind(policy.idle_reset_seconds)
        .bind(policy.scope.as_str())
        .bind(policy.session_stop_seconds)
        .bind(policy.escalate_after)
        .bind(policy.answer_loop.as_str())
        .bind(json!(policy.tools).to_string())
        .bind(policy.reason.as_deref())
        .bind(agent.first_seen_ms)
        .bind(agent.last_seen_ms)
        .bind(rev)
        .bind(agent.discovered)
        .bind(agent.deleted)
        .bind(agent.managed_by.as_deref())
        .bind(agent.managed_rule.as_deref());
        self.connection().run(statement).await?;
        if agent.deleted {
            self.delete_calls(&policy.agent_id).await?;
        }
        Ok(rev)
    }

    /// Extends the time from `first_seen` to `last_seen` of each agent so that it includes both given times. The revision
    /// stays the same, because filters need not be told.
    pub async fn touch_agents(&mut self, seen: Vec<(&str, Millis, Millis)>) -> Result<()> {
        for seen in chunks(seen) {
            let rows = seen.into_iter().map(|(id, first_ms, last_ms)| [id.into(), first_ms.into(), last_ms.into()]);
            // The comparisons are neither true nor false for null, so a null is replaced.
            let update = Statement::new("WITH seen (id, first_ms, last_ms) AS (VALUES").push_lists(rows).push(
                ") UPDATE agents SET
                     first_seen_ms = CASE WHEN first_seen_ms < seen.first_ms THEN first_seen_ms ELSE seen.first_ms END,
                     last_seen_ms = CASE WHEN last_seen_ms > seen.last_ms THEN last_seen_ms ELSE seen.last_ms END
                 FROM seen WHERE agents.agent_id = seen.id",
            );
            self.connection().run(update).await?;
        }
        Ok(())
    }

    /// Counts the agents that only traffic created.
    pub async fn discovered_agents(&mut self) -> Result<u64> {
        let dialect = self.dialect;
        discovered_agents(self.connection(), dialect).await
    }
}

/// Returns the rows of a statement that ends with `IN`, for all these ids.
pub(super) async fn rows_of(connection: &mut dyn Connection, select: &'static str, ids: &[&str]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for ids in chunks(ids.to_vec()) {
        let statement = Statement::new(select).push_list(ids.into_iter().map(Argument::from));
        rows.extend(connection.rows(statement).await?);
    }
    Ok(rows)
}

async fn existing_agents<'a>(connection: &mut dyn Connection, ids: &[&'a str]) -> Result<HashSet<&'a str>> {
    let rows = rows_of(connection, "SELECT agent_id FROM agents WHERE NOT deleted AND agent_id IN", ids).await?;
    let existing = rows.iter().map(|row| row.text("agent_id")).collect::<Result<HashSet<_>>>()?;
    Ok(ids.iter().copied().filter(|id| existing.contains(*id)).collect())
}

async fn discovered_agents(connection: &mut dyn Connection, dialect: &Dialect) -> Result<u64> {
    let statement = Statement::new("SELECT count(*) AS count FROM agents WHERE").push(dialect.discovered);
    connection.row(statement).await?.integer("count")
}

/// Returns the pattern for `LIKE` that matches every text which contains `search`.
fn contains(search: &str) -> String {
    let mut pattern = String::from("%");
    for character in search.to_ascii_lowercase().chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}
