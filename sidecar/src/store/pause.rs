//! The table with the latest pause, and what a storm of kills is counted from.

use super::row::readable;
use super::{Connection, Result, Row, Statement, Store, Tx};
use crate::model::{KillOutcome, Millis, Pause, PauseCause};

/// Something that a kill report stopped: an agent, or one of its conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The agent.
    pub agent_id: String,
    /// Its generation when that happened.
    pub generation: u64,
    /// What was done.
    pub outcome: KillOutcome,
    /// Whether only a conversation was stopped. False if the agent was deactivated together with it.
    pub is_session: bool,
}

fn pause(row: &Row) -> Result<Pause> {
    Ok(Pause {
        since_ms: row.integer("since_ms")?,
        until_ms: row.integer("until_ms")?,
        spares_after_ms: row.integer("spares_after_ms")?,
        cause: row.word("cause", PauseCause::parse)?,
        actor: row.text("actor")?,
        by: row.get("person")?,
        reason: row.text("reason")?,
        event_id: row.integer("event_id")?,
        ended_ms: row.optional_integer("ended_ms")?,
    })
}

async fn latest(connection: &mut dyn Connection) -> Result<Option<Pause>> {
    let sql = "SELECT since_ms, until_ms, spares_after_ms, cause, actor, person, reason, event_id, ended_ms FROM pause";
    // One that cannot be read counts as over, so that loops are stopped.
    Ok(readable("pause", "event_id", &connection.rows(Statement::new(sql)).await?, pause)?.pop())
}

impl Store {
    /// Returns the latest pause, in force or over.
    pub async fn pause(&self) -> Result<Option<Pause>> {
        latest(self.database.reader().await?.as_mut()).await
    }
}

impl Tx {
    /// Returns the latest pause, in force or over.
    pub async fn pause(&mut self) -> Result<Option<Pause>> {
        latest(self.connection()).await
    }

    /// Writes the pause under the next revision, and returns that revision, so that filters are told. It replaces the one
    /// before.
    pub async fn save_pause(&mut self, pause: &Pause) -> Result<u64> {
        let statement = Statement::new(
            "INSERT INTO pause (id, since_ms, until_ms, cause, actor, person, reason, event_id, ended_ms,
                 spares_after_ms)
             VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (id) DO UPDATE SET since_ms = excluded.since_ms, until_ms = excluded.until_ms,
                 cause = excluded.cause, actor = excluded.actor, person = excluded.person, reason = excluded.reason,
                 event_id = excluded.event_id, ended_ms = excluded.ended_ms,
                 spares_after_ms = excluded.spares_after_ms",
        )
        .bind(pause.since_ms)
        .bind(pause.until_ms)
        .bind(pause.cause.as_str())
        .bind(&pause.actor)
        .bind(pause.by.as_deref())
        .bind(&pause.reason)
        .bind(pause.event_id)
        .bind(pause.ended_ms)
        .bind(pause.spares_after_ms);
        self.connection().run(statement).await?;
        self.next_revision().await
    }

    /// Returns when the last kill from `since_ms` on and before `until_ms` was detected, if there is one.
    pub async fn last_detection(&mut self, since_ms: Millis, until_ms: Millis) -> Result<Option<Millis>> {
        let statement = Statement::new(
            "SELECT max(detected_ms) AS last_ms FROM kills
             WHERE detected_ms >= $1 AND detected_ms < $2 AND outcome IN ('applied', 'stopped', 'blocked')",
        );
        self.connection().row(statement.bind(since_ms).bind(until_ms)).await?.optional_integer("last_ms")
    }

    /// Counts what was stopped because of loops that were detected after `since_ms`, up to `until_ms`. An agent that was
    /// blocked several times counts once, because one agent in a tight loop is no storm.
    pub async fn count_stopped(&mut self, since_ms: Millis, until_ms: Millis) -> Result<u64> {
        let statement = Statement::new(
            "SELECT count(DISTINCT CASE WHEN outcome = 'blocked' THEN 'agent ' || agent_id ELSE 'kill ' || kill_id END)
                 AS count
             FROM kills WHERE detected_ms > $1 AND detected_ms <= $2 AND outcome IN ('applied', 'stopped', 'blocked')",
        );
        self.connection().row(statement.bind(since_ms).bind(until_ms)).await?.integer("count")
    }

    /// Returns what [`Self::count_stopped`] counts, once for each agent and kind, in the order of the agents.
    pub async fn stopped(&mut self, since_ms: Millis, until_ms: Millis) -> Result<Vec<Stopped>> {
        let statement = Statement::new(
            "SELECT DISTINCT agent_id, generation, outcome, outcome <> 'applied' AND scope = 'session' AS is_session
             FROM kills WHERE detected_ms > $1 AND detected_ms <= $2 AND outcome IN ('applied', 'stopped', 'blocked')
             ORDER BY agent_id, is_session, generation, outcome",
        );
        let rows = self.connection().rows(statement.bind(since_ms).bind(until_ms)).await?;
        let stopped = |row: &Row| {
            Ok(Stopped {
                agent_id: row.text("agent_id")?,
                generation: row.integer("generation")?,
                outcome: row.word("outcome", KillOutcome::parse)?,
                is_session: row.get("is_session")?,
            })
        };
        rows.iter().map(stopped).collect()
    }
}
