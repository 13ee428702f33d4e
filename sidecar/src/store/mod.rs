//! Where everything is kept: the contract that any database must fulfil.
//!
//! No rules live here. The service composes them out of the small steps of a [`Tx`], so that they exist once however
//! many databases there are; a store only promises that a transaction is all or nothing, durable once committed, and
//! alone: writers wait for each other, in whichever process, which is what makes "read, decide, write" in the service
//! safe. Reads outside a transaction see committed state only. Revisions and the numbers of events become visible in
//! their order: whoever has read up to one of them has not missed a lower one.
//!
//! `tests/it/store.rs` is the suite that every implementation passes.

use agent_kill_switch::wire::{DeactivatedBy, ScoreSample};
use async_trait::async_trait;

use crate::model::{Agent, Event, EventType, KillRecord, Millis, NewEvent, SeenEnvoy, Token};

mod access;
mod alerts;
mod error;
mod location;
mod migrations;
mod postgres;
mod row;
mod sqlite;

pub use access::{AccessStore, Session};
pub use alerts::{AlertStore, AlertTx, DeliveryQuery};
pub use error::StoreError;
pub use location::Location;
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;

/// What a store answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Which life of the database this is, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Made up once, when the database was created.
    pub epoch: String,
    /// The revision of the latest change to any agent.
    pub rev: u64,
}

/// Which agents to list, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct AgentQuery {
    /// Only ids after this one.
    pub after: Option<String>,
    /// Only where the id or the name contains this, in whatever case (ASCII).
    pub search: Option<String>,
    /// Only active or only inactive ones.
    pub active: Option<bool>,
    /// Only those that this one switched off.
    pub deactivated_by: Option<DeactivatedBy>,
    /// Only with the kill switch on or off.
    pub kill_switch_enabled: Option<bool>,
    /// At most so many.
    pub limit: u32,
}

/// Where in the log of events to read, and in which direction.
#[derive(Clone, Copy, Debug)]
pub enum EventRange {
    /// The newest first, those before this id only.
    Before(Option<u64>),
    /// The oldest first, those after this id only.
    After(u64),
}

/// Which events to list.
#[derive(Clone, Debug)]
pub struct EventQuery {
    /// Where and in which direction.
    pub range: EventRange,
    /// Of this agent only.
    pub agent_id: Option<String>,
    /// Of this type only.
    pub event_type: Option<EventType>,
    /// Recorded at this time or later.
    pub since_ms: Option<Millis>,
    /// Recorded before this time.
    pub until_ms: Option<Millis>,
    /// At most so many.
    pub limit: u32,
}

/// What may be forgotten: everything older than the given times.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// Now: alerts whose time is up are dropped.
    pub now_ms: Millis,
    /// Scores before this time.
    pub scores_before_ms: Millis,
    /// Notices that are done with, decided before this time.
    pub deliveries_before_ms: Millis,
    /// Events before this time; none unless configured.
    pub events_before_ms: Option<Millis>,
}

/// A database.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Epoch and revision.
    async fn meta(&self) -> Result<Meta>;
    /// One agent; tombstones are not found.
    async fn agent(&self, agent_id: &str) -> Result<Option<Agent>>;
    /// A page of agents; no tombstones.
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>>;
    /// Agents and tombstones that changed after `since`, in the order of their revisions.
    async fn changes(&self, since: u64, limit: u32) -> Result<Vec<Agent>>;
    /// A page of events.
    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>>;
    /// The latest scores of an agent at or after `since_ms`, oldest first.
    async fn scores(&self, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>>;
    /// Every token, revoked ones too, the oldest first.
    async fn tokens(&self) -> Result<Vec<Token>>;
    /// Which events wait for somebody to be told of them.
    async fn pending_alerts(&self) -> Result<Vec<u64>>;
    /// Alert rules and deliveries.
    fn alerts(&self) -> &dyn AlertStore;
    /// The dashboard's password and sessions.
    fn access(&self) -> &dyn AccessStore;
    /// Proves that the database can be written, by writing.
    async fn check_writable(&self, now_ms: Millis) -> Result<()>;
    /// Starts a transaction, once every other writer is done.
    async fn begin(&self) -> Result<Box<dyn Tx>>;
    /// Completes when another process may have committed something since the last time; never, where there is none.
    /// One caller at a time.
    async fn changed_elsewhere(&self) {
        std::future::pending().await
    }
    /// Tells the other replicas which Envoys poll here, and returns all that any of them has heard of since `since_ms`;
    /// none, where there are no others.
    async fn share_envoys(&self, _seen: &[SeenEnvoy], _since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
        Ok(Vec::new())
    }
    /// Closes every connection, so that nothing is left to recover.
    async fn close(&self);
}

/// One transaction. Dropped without [`Tx::commit`], it never happened.
#[async_trait]
pub trait Tx: Send {
    /// One agent, or its tombstone.
    async fn agent(&mut self, agent_id: &str) -> Result<Option<Agent>>;
    /// Writes the whole agent under the next revision, which is returned; `agent.rev` is ignored.
    async fn save_agent(&mut self, agent: &Agent) -> Result<u64>;
    /// Moves `first_seen` and `last_seen` outwards to include `seen_ms`. No new revision: filters need not hear of it.
    async fn touch_agent(&mut self, agent_id: &str, seen_ms: Millis) -> Result<()>;
    /// How many agents exist that only traffic created.
    async fn discovered_agents(&mut self) -> Result<u64>;
    /// Appends an event and returns its id.
    async fn append_event(&mut self, event: &NewEvent) -> Result<u64>;
    /// Notes that somebody may want to be told of an event.
    async fn enqueue_alert(&mut self, event_id: u64, created_ms: Millis, expires_ms: Millis) -> Result<()>;
    /// Alert rules and deliveries, in this transaction.
    fn alerts(&mut self) -> &mut dyn AlertTx;
    /// The record of a report by its own id.
    async fn kill(&mut self, kill_id: &str) -> Result<Option<KillRecord>>;
    /// The report that ended a generation of an agent.
    async fn applied_kill(&mut self, agent_id: &str, generation: u64) -> Result<Option<KillRecord>>;
    /// Records a report.
    async fn record_kill(&mut self, kill: &KillRecord) -> Result<()>;
    /// Appends scores, oldest first, and forgets all but the latest `keep` of the agent.
    async fn append_scores(&mut self, agent_id: &str, scores: &[ScoreSample], keep: u32) -> Result<()>;
    /// Adds a token.
    async fn add_token(&mut self, token: &Token) -> Result<()>;
    /// Revokes a token; false if there is none to revoke.
    async fn revoke_token(&mut self, token_id: &str, now_ms: Millis) -> Result<bool>;
    /// Forgets what may be forgotten.
    async fn expire(&mut self, expiry: &Expiry) -> Result<()>;
    /// Makes it all true, durably.
    async fn commit(self: Box<Self>) -> Result<()>;
}
