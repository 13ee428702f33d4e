//! Where everything is kept: SQL statements in small transactional steps, without any rules.
//!
//! The rules are in the service, which composes them from the steps of a [`Tx`]. The store only promises that a
//! transaction is atomic, that it is durable once committed, and that it runs alone: writers wait for each other, even
//! in different processes, and that makes "read, decide, write" in the service safe. Reads outside a transaction see
//! committed state only. Revisions and event ids become visible in ascending order, so a reader that has seen one of
//! them has not missed a lower one.
//!
//! Each table has one file with its columns, its statements and the conversion of its rows: `agents`, `events`,
//! `scores`, `calls`, `usage`, `stops`, `pause`, `policy_rules`, `access` and `alerts`. `overview` counts over several of
//! them. The statements are the same for SQLite and PostgreSQL. What the two do differently is behind the [`Database`]
//! trait, in `sqlite` and `postgres`. The suite in `tests/it/store.rs` runs against both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::model::{Event, Millis, SeenEnvoy};

mod access;
mod agents;
mod alerts;
mod bus;
mod calls;
mod database;
mod error;
mod events;
mod health;
mod location;
mod meta;
mod migrations;
mod overview;
mod pause;
mod policy_rules;
mod postgres;
mod row;
mod scores;
mod sqlite;
mod statement;
mod stops;
mod transfer;
mod usage;

pub use access::Session;
pub use agents::{AgentQuery, Changes};
pub use alerts::DeliveryQuery;
pub use bus::{EntryBus, InProcess};
pub use database::{Connection, Database, Dialect, Transaction};
pub use error::StoreError;
pub use events::{EventQuery, EventRange};
pub use health::Failure;
use health::{Health, Observed};
pub use location::Location;
pub use meta::Meta;
use meta::Revisions;
pub use overview::{AgentCount, EventCount};
pub use pause::Stopped;
pub use postgres::Postgres;
pub use row::Row;
pub use sqlite::Sqlite;
pub use statement::Statement;
pub use stops::StopQuery;
pub use transfer::TransferError;

/// The result of a call to the store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The number of rows that [`Tx::expire`] deletes at most, so that other writers do not wait for long.
pub const EXPIRE_AT_MOST: u64 = 1_000;

/// What may be deleted: everything older than the given times.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// The current time. Alerts in the outbox that have expired by now are deleted.
    pub now_ms: Millis,
    /// Scores and calls before this time are deleted.
    pub scores_before_ms: Millis,
    /// Finished deliveries that were created before this time are deleted.
    pub deliveries_before_ms: Millis,
    /// Stops of conversations of which filters were told for the last time before this time are deleted.
    pub stops_before_ms: Millis,
    /// Events before this time are deleted, if it is set, and so is what agents used on the days before.
    pub events_before_ms: Option<Millis>,
}

/// A database with the statements of the sidecar.
pub struct Store {
    database: Box<dyn Database>,
    health: Arc<Health>,
    /// The highest revision that this process has committed in its branch: see [`Meta`].
    committed: Arc<AtomicU64>,
}

impl Store {
    /// Returns a store over an open database.
    pub fn new(database: impl Database) -> Self {
        let health = Arc::<Health>::default();
        let database = Box::new(Observed { inner: database, health: Arc::clone(&health) });
        Self { database, health, committed: Arc::default() }
    }

    /// Opens a SQLite file, creates it if there is none, and brings its schema up to date.
    pub async fn sqlite(path: &Path) -> Result<Self> {
        Ok(Self::new(Sqlite::open(path).await?))
    }

    /// Connects to the PostgreSQL database that a URL names, and brings its schema up to date.
    pub async fn postgres(url: &str) -> Result<Self> {
        Ok(Self::new(Postgres::open(url).await?))
    }

    /// Starts a transaction once every other writer is done.
    pub async fn begin(&self) -> Result<Tx> {
        let (transaction, dialect) = (self.database.begin().await?, self.database.dialect());
        Ok(Tx { transaction, dialect, revisions: Revisions::new(&self.committed), events: Vec::new() })
    }

    /// Completes when another process may have committed something: see [`Database::changed_elsewhere`].
    pub async fn changed_elsewhere(&self) {
        self.database.changed_elsewhere().await;
    }

    /// Exchanges the lists of connected Envoys with other replicas: see [`Database::share_envoys`].
    pub async fn share_envoys(&self, seen: &[SeenEnvoy], since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
        self.database.share_envoys(seen, since_ms).await
    }

    /// Returns the bus by which replicas tell each other of calls: see [`Database::entry_bus`].
    pub fn entry_bus(&self) -> Arc<dyn EntryBus> {
        self.database.entry_bus()
    }

    /// Closes every connection, so that the next start has nothing to recover.
    pub async fn close(&self) {
        self.database.close().await;
    }
}

/// One transaction. If it is dropped without [`Tx::commit`], it has changed nothing.
pub struct Tx {
    transaction: Box<dyn Transaction>,
    dialect: &'static Dialect,
    revisions: Revisions,
    /// The events that were appended.
    events: Vec<Event>,
}

impl Tx {
    /// Returns the events that were appended since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Makes every change of the transaction permanent.
    pub async fn commit(self) -> Result<()> {
        self.transaction.commit().await?;
        self.revisions.committed();
        Ok(())
    }

    /// Deletes what is older than `expiry` allows, but at most [`EXPIRE_AT_MOST`] rows. Returns how many were deleted.
    pub async fn expire(&mut self, expiry: &Expiry) -> Result<u64> {
        let mut deleted = 0;
        let events_before_ms = expiry.events_before_ms;
        for (sql, before_ms) in [
            (
                "DELETE FROM scores WHERE id IN (SELECT id FROM scores WHERE at_ms < $1 LIMIT $2)",
                Some(expiry.scores_before_ms),
            ),
            (
                "DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE arrived_ms < $1 LIMIT $2)",
                Some(expiry.scores_before_ms),
            ),
            (
                "DELETE FROM alert_outbox WHERE event_id IN
                     (SELECT event_id FROM alert_outbox WHERE expires_ms <= $1 LIMIT $2)",
                Some(expiry.now_ms),
            ),
            (
                "DELETE FROM alert_deliveries WHERE seq IN
                     (SELECT seq FROM alert_deliveries WHERE created_ms < $1 AND status <> 'pending' LIMIT $2)",
                Some(expiry.deliveries_before_ms),
            ),
            (
                "DELETE FROM stopped_sessions WHERE id IN
                     (SELECT id FROM stopped_sessions WHERE told_until_ms < $1 LIMIT $2)",
                Some(expiry.stops_before_ms),
            ),
            // The record of a kill report is kept as long as its event.
            (
                "DELETE FROM kills WHERE kill_id IN (SELECT kill_id FROM kills WHERE received_ms < $1 LIMIT $2)",
                events_before_ms,
            ),
            (
                "DELETE FROM refusals WHERE event_id IN
                     (SELECT event_id FROM refusals JOIN events ON id = event_id WHERE at_ms < $1 LIMIT $2)",
                events_before_ms,
            ),
            ("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE at_ms < $1 LIMIT $2)", events_before_ms),
            (
                "DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE day < $1 / 86400000 LIMIT $2)",
                events_before_ms,
            ),
        ] {
            let Some(before_ms) = before_ms else { continue };
            let left = EXPIRE_AT_MOST.saturating_sub(deleted);
            if left == 0 {
                break;
            }
            deleted += self.connection().run(Statement::new(sql).bind(before_ms).bind(left)).await?;
        }
        Ok(deleted)
    }

    fn connection(&mut self) -> &mut dyn Connection {
        self.transaction.as_mut()
    }
}
