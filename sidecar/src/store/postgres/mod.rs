//! The store in a PostgreSQL database that several replicas of the sidecar share.
//!
//! Writers are alone as in SQLite, across all replicas: every transaction begins by raising a counter in the one row of
//! `meta`, and so holds that row's lock until it ends. Revisions and ids are given out under the lock, which is why
//! they become visible in their order. Transactions are READ COMMITTED on purpose: whoever waited for the lock must see
//! what the one before it wrote, not a snapshot from before the wait.
//!
//! A commit waits for the disk (`synchronous_commit`), and tells the other replicas (see [`watch`]). Within one replica
//! writers queue for a single connection, so that a crowd of them leaves the other connections to the readers.

use std::borrow::Cow;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agent_kill_switch::wire::ScoreSample;
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPool, PgPoolOptions};
use tokio::sync::Mutex;

use super::migrations::migrator;
use super::{AccessStore, AgentQuery, AlertStore, EventQuery, Meta, Result, Store, StoreError, Tx, row};
use crate::model::{Agent, Event, Millis, SeenEnvoy, Token};

mod access;
mod alerts;
mod columns;
mod envoys;
mod line;
mod read;
mod watch;
mod write;

use line::Line;

/// Reads run beside each other; with the writer and the listener that makes six connections for each replica.
const READERS: u32 = 4;
/// How long to wait for a connection: for one's turn, or for a database that is not there.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// Settings of every session: the writers of other replicas are waited for as long as it takes a filter to ask again, a
/// statement that takes longer is given up, and a replica that falls silent within a transaction loses it.
const SETTINGS: [(&str, &str); 4] = [
    ("lock_timeout", "5s"),
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("synchronous_commit", "on"),
];
/// What a URL may say beside user, host and name of the database. The driver would log anything else, whatever it is.
const PARAMETERS: [&str; 12] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

const STEPS: [(&str, &str); 4] = [
    ("initial", include_str!("../../../migrations/postgres/0001_initial.sql")),
    ("alerts", include_str!("../../../migrations/postgres/0002_alerts.sql")),
    ("access", include_str!("../../../migrations/postgres/0003_access.sql")),
    ("envoys", include_str!("../../../migrations/postgres/0004_envoys.sql")),
];

/// A PostgreSQL database: one writing connection, some reading ones, and one that listens.
pub struct PostgresStore {
    reader: PgPool,
    writer: PgPool,
    options: PgConnectOptions,
    /// Names this replica in what it tells the others.
    replica: String,
    watch: Mutex<watch::Watch>,
    /// Whether a commit was left unanswered: it may have been made, and nobody here knows.
    in_doubt: Arc<AtomicBool>,
}

impl PostgresStore {
    /// Connects to the database that a URL names, and brings its schema up to date.
    pub async fn open(url: &str) -> Result<Self> {
        let options = parse(url)?;
        migrate(&options).await?;
        let options = options.options(SETTINGS);
        let pool = |connections| PgPoolOptions::new().max_connections(connections).acquire_timeout(TURN_TIMEOUT);
        Ok(Self {
            writer: pool(1).connect_with(options.clone()).await?,
            reader: pool(READERS).connect_with(options.clone()).await?,
            options,
            replica: watch::random_name()?,
            watch: Mutex::default(),
            in_doubt: Arc::default(),
        })
    }

    /// A connection for single statements.
    async fn line(&self) -> Result<Line> {
        Ok(Line::new(self.reader.acquire().await?))
    }
}

fn parse(url: &str) -> Result<PgConnectOptions> {
    let refused = |reason: String| StoreError::Unavailable(format!("the URL is not one of PostgreSQL: {reason}"));
    let parsed = url::Url::parse(url).map_err(|error| refused(error.to_string()))?;
    for (name, _) in parsed.query_pairs() {
        if !PARAMETERS.contains(&name.as_ref()) && !name.starts_with("options[") {
            return Err(refused(format!("{name} must be one of {}", PARAMETERS.join(", "))));
        }
    }
    let options = PgConnectOptions::from_str(url).map_err(|error| refused(error.to_string()))?;
    // Whoever looks at the database's list of connections should know whose they are.
    let is_named = parsed.query_pairs().any(|(name, _)| name == "application_name");
    Ok(if is_named { options } else { options.application_name("kill-switch") })
}

/// Without the limits on time that hold later: a step may take long, and the other replicas wait for it.
async fn migrate(options: &PgConnectOptions) -> Result<()> {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(TURN_TIMEOUT);
    let pool = pool.connect_with(options.clone()).await?;
    let mut connection = pool.acquire().await?;
    let encoding: String = sqlx::query_scalar("SHOW server_encoding").fetch_one(&mut *connection).await?;
    if encoding != "UTF8" {
        return Err(StoreError::Unavailable(format!("its encoding ({encoding}) must be UTF8")));
    }
    let done = migrator(&STEPS).run(&mut *connection).await;
    let _ = connection.detach().close().await;
    done.map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// Text as PostgreSQL takes it: it has no character 0.
fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[async_trait]
impl Store for PostgresStore {
    async fn meta(&self) -> Result<Meta> {
        read::meta(&mut self.line().await?).await
    }

    async fn agent(&self, agent_id: &str) -> Result<Option<Agent>> {
        read::agent(&mut self.line().await?, agent_id).await
    }

    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        read::agents(&mut self.line().await?, query).await
    }

    async fn changes(&self, since: u64, limit: u32) -> Result<Vec<Agent>> {
        read::changes(&mut self.line().await?, since, limit).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        read::events(&mut self.line().await?, query).await
    }

    async fn scores(&self, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>> {
        read::scores(&mut self.line().await?, agent_id, since_ms, limit).await
    }

    async fn tokens(&self) -> Result<Vec<Token>> {
        read::tokens(&mut self.line().await?).await
    }

    async fn pending_alerts(&self) -> Result<Vec<u64>> {
        read::pending_alerts(&mut self.line().await?).await
    }

    fn alerts(&self) -> &dyn AlertStore {
        self
    }

    fn access(&self) -> &dyn AccessStore {
        self
    }

    async fn check_writable(&self, now_ms: Millis) -> Result<()> {
        let mut line = Line::new(self.writer.acquire().await?);
        line.run(sqlx::query("UPDATE meta SET checked_ms = $1").bind(row::to_i64(now_ms))).await?;
        Ok(())
    }

    async fn begin(&self) -> Result<Box<dyn Tx>> {
        let line = Line::new(self.writer.acquire().await?);
        Ok(Box::new(write::PostgresTx::begin(line, &self.replica, Arc::clone(&self.in_doubt)).await?))
    }

    async fn changed_elsewhere(&self) {
        self.watch.lock().await.changed(self).await;
    }

    async fn share_envoys(&self, seen: &[SeenEnvoy], since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
        envoys::share(&mut self.line().await?, seen, since_ms).await
    }

    async fn close(&self) {
        // Whoever listens holds no connection of these.
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Whether the same statement may succeed a moment later.
pub(super) fn is_busy(error: &dyn DatabaseError) -> bool {
    const RETRY: [&str; 9] = [
        // Too many connections.
        "53300", // Serialization failure and deadlock: neither is expected of writers that are alone.
        "40001", "40P01",
        // The lock was not to be had in time, or the statement took too long, or the whole transaction did.
        "55P03", "57014", "25P03", // The server stops, has crashed, or is not up yet.
        "57P01", "57P02", "57P03",
    ];
    error.try_downcast_ref::<PgDatabaseError>().is_some_and(|error| RETRY.contains(&error.code()))
}
