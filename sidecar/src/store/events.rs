//! The tables of events, of kill reports, and of the events that wait to become alerts.

use super::row::readable;
use super::{Result, Row, Statement, Store, Tx};
use crate::model::{Event, EventType, KillOutcome, KillRecord, Millis, NewEvent};

/// Where in the log of events to read, and in which direction.
#[derive(Clone, Copy, Debug)]
pub enum EventRange {
    /// Newest first, only events before this id.
    Before(Option<u64>),
    /// Oldest first, only events after this id.
    After(u64),
}

/// Which events to list.
#[derive(Clone, Debug)]
pub struct EventQuery {
    /// Where to read, and in which direction.
    pub range: EventRange,
    /// Only events of this agent.
    pub agent_id: Option<String>,
    /// Only events of this type.
    pub event_type: Option<EventType>,
    /// Only events recorded at this time or later.
    pub since_ms: Option<Millis>,
    /// Only events recorded before this time.
    pub until_ms: Option<Millis>,
    /// The largest number of events to return.
    pub limit: u32,
}

fn select(rest: &'static str) -> Statement {
    let columns = "SELECT id, at_ms, event_type, agent_id, generation, actor, reason, detail FROM events";
    Statement::new(columns).push(rest)
}

fn event(row: &Row) -> Result<Event> {
    Ok(Event {
        id: row.integer("id")?,
        body: NewEvent {
            at_ms: row.integer("at_ms")?,
            event_type: row.word("event_type", EventType::parse)?,
            agent_id: row.text("agent_id")?,
            generation: row.integer("generation")?,
            actor: row.text("actor")?,
            reason: row.text("reason")?,
            detail: row.word("detail", |detail| serde_json::from_str(detail).ok())?,
        },
    })
}

fn kill(row: &Row) -> Result<KillRecord> {
    Ok(KillRecord {
        kill_id: row.text("kill_id")?,
        agent_id: row.text("agent_id")?,
        generation: row.integer("generation")?,
        outcome: row.word("outcome", KillOutcome::parse)?,
        event_id: row.integer("event_id")?,
        received_ms: row.integer("received_ms")?,
        detected_ms: row.integer("detected_ms")?,
        scope: row.word("scope", |word| word.parse().ok())?,
    })
}

impl Store {
    /// Returns a page of events.
    pub async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        let (start, order) = match query.range {
            EventRange::Before(id) => {
                (select("WHERE id < $1").bind(id.unwrap_or(u64::MAX)), "ORDER BY id DESC LIMIT ?")
            }
            EventRange::After(id) => (select("WHERE id > $1").bind(id), "ORDER BY id LIMIT ?"),
        };
        let statement = start
            .and("agent_id = ?", query.agent_id.as_deref())
            .and("event_type = ?", query.event_type.map(EventType::as_str))
            .and("at_ms >= ?", query.since_ms)
            .and("at_ms < ?", query.until_ms)
            .push_bind(order, query.limit);
        self.database.reader().await?.rows(statement).await?.iter().map(event).collect()
    }

    /// Returns an event.
    pub async fn event(&self, id: u64) -> Result<Option<Event>> {
        let statement = select("WHERE id = $1").bind(id);
        self.database.reader().await?.optional_row(statement).await?.as_ref().map(event).transpose()
    }

    /// Returns how many calls were refused since an event and before the next one that stopped its agent, and when the
    /// latest was. `None` if none was.
    pub async fn refusals(&self, event_id: u64) -> Result<Option<(u64, Millis)>> {
        let statement = Statement::new("SELECT calls, last_ms FROM refusals WHERE event_id = $1").bind(event_id);
        let row = self.database.reader().await?.optional_row(statement).await?;
        row.map(|row| Ok((row.integer("calls")?, row.integer("last_ms")?))).transpose()
    }

    /// Returns the ids of the events that wait to become alerts.
    pub async fn pending_alerts(&self) -> Result<Vec<u64>> {
        let statement = Statement::new("SELECT event_id FROM alert_outbox ORDER BY event_id");
        self.database.reader().await?.rows(statement).await?.iter().map(|row| row.integer("event_id")).collect()
    }
}

impl Tx {
    /// Appends an event and returns its id.
    pub async fn append_event(&mut self, event: &NewEvent) -> Result<u64> {
        let statement = Statement::new(
            "INSERT INTO events (at_ms, event_type, agent_id, generation, actor, reason, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
        )
        .bind(event.at_ms)
        .bind(event.event_type.as_str())
        .bind(&event.agent_id)
        .bind(event.generation)
        .bind(&event.actor)
        .bind(&event.reason)
        .bind(serde_json::Value::Object(event.detail.clone()).to_string());
        let id = self.connection().row(statement).await?.integer("id")?;
        self.events.push(Event { id, body: event.clone() });
        Ok(id)
    }

    /// Counts calls that were refused, for the latest event that stopped the agent or one of its conversations.
    pub async fn add_refusals(&mut self, agent_id: &str, calls: u64, last_ms: Millis) -> Result<()> {
        let statement = Statement::new(
            "INSERT INTO refusals (event_id, calls, last_ms) SELECT id, $2, $3 FROM events
             WHERE agent_id = $1 AND event_type IN ('kill_switch', 'blocked', 'deactivated') ORDER BY id DESC LIMIT 1
             ON CONFLICT (event_id) DO UPDATE SET calls = refusals.calls + excluded.calls, last_ms = excluded.last_ms",
        );
        self.connection().run(statement.bind(agent_id).bind(calls).bind(last_ms)).await.map(drop)
    }

    /// Puts an event into the outbox, where it waits to become alerts until `expires_ms`.
    pub async fn enqueue_alert(&mut self, event_id: u64, created_ms: Millis, expires_ms: Millis) -> Result<()> {
        let sql = "INSERT INTO alert_outbox (event_id, created_ms, expires_ms) VALUES ($1, $2, $3)";
        let statement = Statement::new(sql).bind(event_id).bind(created_ms).bind(expires_ms);
        self.connection().run(statement).await.map(drop)
    }

    /// Returns the events in the outbox, oldest first.
    pub async fn outbox(&mut self, limit: u32) -> Result<Vec<Event>> {
        let statement = select("WHERE id IN (SELECT event_id FROM alert_outbox) ORDER BY id LIMIT $1").bind(limit);
        readable("events", "id", &self.connection().rows(statement).await?, event)
    }

    /// Takes an event out of the outbox.
    pub async fn dequeue_alert(&mut self, event_id: u64) -> Result<()> {
        self.connection()
            .run(Statement::new("DELETE FROM alert_outbox WHERE event_id = $1").bind(event_id))
            .await
            .map(drop)
    }

    /// Returns the record of the kill report with this id.
    pub async fn kill(&mut self, kill_id: &str) -> Result<Option<KillRecord>> {
        self.find_kill(select_kills("WHERE kill_id = $1").bind(kill_id)).await
    }

    /// Returns the record of the kill report that deactivated this generation of an agent.
    pub async fn applied_kill(&mut self, agent_id: &str, generation: u64) -> Result<Option<KillRecord>> {
        let statement = select_kills("WHERE agent_id = $1 AND generation = $2 AND outcome = 'applied'");
        self.find_kill(statement.bind(agent_id).bind(generation)).await
    }

    async fn find_kill(&mut self, statement: Statement) -> Result<Option<KillRecord>> {
        self.connection().optional_row(statement).await?.as_ref().map(kill).transpose()
    }

    /// Records a kill report.
    pub async fn record_kill(&mut self, kill: &KillRecord) -> Result<()> {
        let statement = Statement::new(
            "INSERT INTO kills (kill_id, agent_id, generation, outcome, event_id, received_ms, detected_ms, scope)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&kill.kill_id)
        .bind(&kill.agent_id)
        .bind(kill.generation)
        .bind(kill.outcome.as_str())
        .bind(kill.event_id)
        .bind(kill.received_ms)
        .bind(kill.detected_ms)
        .bind(kill.scope.as_str());
        self.connection().run(statement).await.map(drop)
    }
}

fn select_kills(rest: &'static str) -> Statement {
    let columns = "SELECT kill_id, agent_id, generation, outcome, event_id, received_ms, detected_ms, scope FROM kills";
    Statement::new(columns).push(rest)
}
