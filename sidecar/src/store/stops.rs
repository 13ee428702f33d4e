//! The table of stopped conversations.

use std::collections::HashSet;

use agent_kill_switch::wire::WHOLE_AGENT;

use super::row::readable;
use super::{Connection, Result, Row, Statement, Store, Tx};
use crate::clock::CLOCK_TOLERANCE_MS;
use crate::model::{Millis, SessionStop};

/// Which stops of an agent to list, newest first: those that are in force at a time.
#[derive(Clone, Debug)]
pub struct StopQuery {
    /// The agent.
    pub agent_id: String,
    /// Its current generation. Stops of other generations are over.
    pub generation: u64,
    /// The time.
    pub at_ms: Millis,
    /// Only stops before this number.
    pub before: Option<u64>,
    /// The largest number of stops to return.
    pub limit: u32,
}

fn select(rest: &'static str) -> Statement {
    let columns =
        "SELECT id, agent_id, generation, session_key, session_id, releases, kill_id, event_id, action, reason,
         stopped_ms, until_ms, told_until_ms, released_ms, released_by FROM stopped_sessions";
    Statement::new(columns).push(rest)
}

fn stop(row: &Row) -> Result<SessionStop> {
    let released_ms: Option<Millis> = row.optional_integer("released_ms")?;
    let released_by: Option<String> = row.get("released_by")?;
    Ok(SessionStop {
        id: row.integer("id")?,
        agent_id: row.text("agent_id")?,
        generation: row.integer("generation")?,
        session_key: row.text("session_key")?,
        session_id: row.get("session_id")?,
        releases: row.integer("releases")?,
        kill_id: row.text("kill_id")?,
        event_id: row.integer("event_id")?,
        action: row.word("action", |word| word.parse().ok())?,
        reason: row.text("reason")?,
        stopped_ms: row.integer("stopped_ms")?,
        until_ms: row.integer("until_ms")?,
        told_until_ms: row.integer("told_until_ms")?,
        released: released_ms.zip(released_by),
    })
}

fn stops(rows: &[Row]) -> Result<Vec<SessionStop>> {
    readable("stopped_sessions", "id", rows, stop)
}

async fn latest_stop(
    connection: &mut dyn Connection,
    agent_id: &str,
    generation: u64,
    session_key: &str,
) -> Result<Option<SessionStop>> {
    let statement =
        select("WHERE agent_id = $1 AND generation = $2 AND session_key = $3 ORDER BY releases DESC LIMIT 1");
    let statement = statement.bind(agent_id).bind(generation).bind(session_key);
    connection.optional_row(statement).await?.as_ref().map(stop).transpose()
}

impl Store {
    /// Returns a page of stops.
    pub async fn stops(&self, query: &StopQuery) -> Result<Vec<SessionStop>> {
        let statement = select(
            "WHERE agent_id = $1 AND generation = $2 AND released_ms IS NULL AND until_ms > $3 AND id < $4
                    AND stopped_ms <= $5 AND session_key <> $6",
        )
        .bind(&query.agent_id)
        .bind(query.generation)
        .bind(query.at_ms)
        .bind(query.before.unwrap_or(u64::MAX))
        .bind(query.at_ms.saturating_add(CLOCK_TOLERANCE_MS))
        // A block of the whole agent is no conversation.
        .bind(WHOLE_AGENT)
        .push_bind("ORDER BY id DESC LIMIT ?", query.limit);
        stops(&self.database.reader().await?.rows(statement).await?)
    }

    /// Returns the latest stop of a conversation in one generation of its agent.
    pub async fn latest_stop(&self, agent_id: &str, generation: u64, session_key: &str) -> Result<Option<SessionStop>> {
        latest_stop(self.database.reader().await?.as_mut(), agent_id, generation, session_key).await
    }

    /// Returns the agents of which filters are told stops or releases at this time.
    pub async fn agents_with_stops(&self, now_ms: Millis) -> Result<HashSet<String>> {
        let statement = Statement::new("SELECT DISTINCT agent_id FROM stopped_sessions WHERE told_until_ms > $1");
        let rows = self.database.reader().await?.rows(statement.bind(now_ms)).await?;
        rows.iter().map(|row| row.text("agent_id")).collect()
    }

    /// Returns what filters are told at this time of one generation of an agent: the latest stop of each conversation,
    /// whether it was released or not. Those that changed last come first.
    pub async fn told_stops(
        &self,
        agent_id: &str,
        generation: u64,
        now_ms: Millis,
        limit: u32,
    ) -> Result<Vec<SessionStop>> {
        let statement = select(
            "WHERE agent_id = $1 AND generation = $2 AND told_until_ms > $3
                 AND (released_ms IS NOT NULL OR stopped_ms <= $5) AND NOT EXISTS
                 (SELECT 1 FROM stopped_sessions AS later WHERE later.agent_id = stopped_sessions.agent_id
                  AND later.generation = stopped_sessions.generation
                  AND later.session_key = stopped_sessions.session_key AND later.releases > stopped_sessions.releases)
             ORDER BY COALESCE(released_ms, stopped_ms) DESC, id DESC LIMIT $4",
        );
        let latest_ms = now_ms.saturating_add(CLOCK_TOLERANCE_MS);
        let statement = statement.bind(agent_id).bind(generation).bind(now_ms).bind(limit).bind(latest_ms);
        stops(&self.database.reader().await?.rows(statement).await?)
    }
}

impl Tx {
    /// Returns the latest stop of a conversation in one generation of its agent.
    pub async fn latest_stop(
        &mut self,
        agent_id: &str,
        generation: u64,
        session_key: &str,
    ) -> Result<Option<SessionStop>> {
        latest_stop(self.connection(), agent_id, generation, session_key).await
    }

    /// Returns the stops because of loops that were detected after `since_ms`, up to `until_ms`, and that nobody released.
    pub async fn stops_made(&mut self, since_ms: Millis, until_ms: Millis) -> Result<Vec<SessionStop>> {
        let statement = select(
            "WHERE released_ms IS NULL AND kill_id IN
                 (SELECT kill_id FROM kills WHERE detected_ms > $1 AND detected_ms <= $2) ORDER BY id",
        );
        stops(&self.connection().rows(statement.bind(since_ms).bind(until_ms)).await?)
    }

    /// Counts the other conversations of the same agent and generation that were stopped, and not only blocked for a
    /// short time, after `since_ms`. Those that a person let go on count as well.
    pub async fn other_stopped_sessions(&mut self, stop: &SessionStop, since_ms: Millis) -> Result<u64> {
        let statement = Statement::new(
            "SELECT count(DISTINCT session_key) AS count FROM stopped_sessions
             WHERE agent_id = $1 AND generation = $2 AND session_key <> $3 AND action = 'deactivate' AND stopped_ms > $4
                 AND stopped_ms <= $5",
        );
        let statement = statement.bind(&stop.agent_id).bind(stop.generation).bind(&stop.session_key).bind(since_ms);
        let statement = statement.bind(stop.stopped_ms.saturating_add(CLOCK_TOLERANCE_MS));
        self.connection().row(statement).await?.integer("count")
    }

    /// Adds a stop and gives it the next number. It replaces earlier stops of the conversation that nobody released.
    pub async fn add_stop(&mut self, stop: &SessionStop) -> Result<()> {
        let replaced = Statement::new(
            "DELETE FROM stopped_sessions WHERE agent_id = $1 AND generation = $2 AND session_key = $3
                 AND releases <= $4 AND released_ms IS NULL",
        );
        let replaced = replaced.bind(&stop.agent_id).bind(stop.generation).bind(&stop.session_key).bind(stop.releases);
        self.connection().run(replaced).await?;
        let statement = Statement::new(
            "INSERT INTO stopped_sessions (agent_id, generation, session_key, session_id, releases, kill_id, event_id,
                 action, reason, stopped_ms, until_ms, told_until_ms, released_ms, released_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        )
        .bind(&stop.agent_id)
        .bind(stop.generation)
        .bind(&stop.session_key)
        .bind(stop.session_id.as_deref())
        .bind(stop.releases)
        .bind(&stop.kill_id)
        .bind(stop.event_id)
        .bind(stop.action.as_str())
        .bind(&stop.reason)
        .bind(stop.stopped_ms)
        .bind(stop.until_ms)
        .bind(stop.told_until_ms)
        .bind(stop.released.as_ref().map(|(at_ms, _)| *at_ms))
        .bind(stop.released.as_ref().map(|(_, by)| by.as_str()));
        self.connection().run(statement).await.map(drop)
    }

    /// Writes when and by whom a stop was released, and until when filters are told.
    pub async fn release_stop(&mut self, stop: &SessionStop) -> Result<()> {
        let sql = "UPDATE stopped_sessions SET released_ms = $1, released_by = $2, told_until_ms = $3 WHERE id = $4";
        let (released_ms, released_by) = stop.released.as_ref().map(|(at_ms, by)| (*at_ms, by.as_str())).unzip();
        let statement = Statement::new(sql).bind(released_ms).bind(released_by).bind(stop.told_until_ms).bind(stop.id);
        self.connection().run(statement).await.map(drop)
    }
}
