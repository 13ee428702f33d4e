//! A PostgreSQL database that several replicas of the sidecar share.
//!
//! Writers run alone, across all replicas: every transaction begins by incrementing a counter in the one row of `meta`,
//! and so holds the lock on that row until it ends. Revisions and ids are assigned under the lock, which is why they
//! become visible in ascending order. Transactions are READ COMMITTED on purpose: a writer that waited for the lock
//! must see what the previous one wrote, not a snapshot from before the wait.
//!
//! A commit waits for the disk (`synchronous_commit`) and notifies the other replicas (see [`watch`]). Within one
//! replica writers queue for a single connection, so that the other connections stay free for readers.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPool, PgPoolOptions};
use tokio::sync::Mutex;

use super::meta::random_name;
use super::{Connection, Database, Dialect, EntryBus, Result, Statement, StoreError, Transaction, migrations};
use crate::model::{Delivery, Millis, SeenEnvoy};

mod bus;
mod connection;
mod envoys;
mod transaction;
mod watch;

use connection::PostgresConnection;
use transaction::PostgresTransaction;

/// Connections for reading. With the writer and two listeners, each replica has seven connections.
const READERS: u32 = 4;
/// How long to wait for a connection, whether others use it or the database is not there.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Settings of every session. A writer waits for those of other replicas about as long as a filter waits before it asks
/// again, a statement that takes longer is cancelled, and a replica that falls silent inside a transaction loses it.
const SETTINGS: [(&str, &str); 4] = [
    ("lock_timeout", "5s"),
    ("statement_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("synchronous_commit", "on"),
];
/// The parameters that a URL may have. The driver would log any other parameter, and it may be a misspelt password.
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

const DIALECT: Dialect = Dialect {
    discovered: "discovered AND NOT deleted",
    and_unclaimed: "AND (claimed_until <= now() OR claimed_until > now() + interval '10 minutes')",
    and_release_claim: ", claimed_until = '-infinity'",
    tables: "SELECT table_name::text AS name FROM information_schema.tables
        WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND table_name <> '_sqlx_migrations'",
    columns: "SELECT column_name::text AS name, data_type::text AS type FROM information_schema.columns
        WHERE table_schema = current_schema() AND table_name = $1",
    overriding: "OVERRIDING SYSTEM VALUE",
    last_number: |table, column| {
        let sql = "SELECT pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass) AS number";
        Statement::new(sql).bind(table).bind(column)
    },
    set_last_number: |table, column, number| {
        let set = Statement::new("SELECT setval(pg_get_serial_sequence($1, $2)::regclass, $3)");
        vec![set.bind(table).bind(column).bind(number)]
    },
};

/// A PostgreSQL database with one writing connection, some reading ones, and two that listen.
pub struct Postgres {
    reader: PgPool,
    writer: PgPool,
    options: PgConnectOptions,
    /// The name of this replica in its notifications.
    replica: String,
    watch: Mutex<watch::Watch>,
    bus: Arc<bus::PostgresBus>,
    /// Whether a commit was left unanswered, so that it is not known here whether it was made.
    in_doubt: Arc<AtomicBool>,
}

impl Postgres {
    /// Connects to the database that a URL names, and brings its schema up to date.
    pub async fn open(url: &str) -> Result<Self> {
        let options = parse(url)?;
        migrate(&options).await?;
        let options = options.options(SETTINGS);
        let pool = |connections| PgPoolOptions::new().max_connections(connections).acquire_timeout(CONNECTION_TIMEOUT);
        let (reader, replica) = (pool(READERS).connect_with(options.clone()).await?, random_name()?);
        Ok(Self {
            writer: pool(1).connect_with(options.clone()).await?,
            bus: Arc::new(bus::PostgresBus::new(reader.clone(), options.clone(), replica.clone())),
            reader,
            options,
            replica,
            watch: Mutex::default(),
            in_doubt: Arc::default(),
        })
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
    // The name tells people who list the connections of the database which ones are ours.
    let is_named = parsed.query_pairs().any(|(name, _)| name == "application_name");
    Ok(if is_named { options } else { options.application_name("kill-switch") })
}

/// Runs the migrations without the time limits of later sessions: a step may take long, and other replicas wait for it.
async fn migrate(options: &PgConnectOptions) -> Result<()> {
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(CONNECTION_TIMEOUT);
    let pool = pool.connect_with(options.clone()).await?;
    let mut connection = pool.acquire().await?;
    let encoding: String = sqlx::query_scalar("SHOW server_encoding").fetch_one(&mut *connection).await?;
    if encoding != "UTF8" {
        return Err(StoreError::Unavailable(format!("its encoding ({encoding}) must be UTF8")));
    }
    let done = migrations::migrator(&migrations::POSTGRES).run(&mut *connection).await;
    let _ = connection.detach().close().await;
    done.map_err(|error| StoreError::Unavailable(error.to_string()))
}

#[async_trait]
impl Database for Postgres {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn reader(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(PostgresConnection::new(self.reader.acquire().await?)))
    }

    async fn writer(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(PostgresConnection::new(self.writer.acquire().await?)))
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        let connection = PostgresConnection::new(self.writer.acquire().await?);
        Ok(Box::new(PostgresTransaction::begin(connection, &self.replica, Arc::clone(&self.in_doubt)).await?))
    }

    async fn changed_elsewhere(&self) {
        self.watch.lock().await.changed(self).await;
    }

    fn entry_bus(&self) -> Arc<dyn EntryBus> {
        Arc::clone(&self.bus) as Arc<dyn EntryBus>
    }

    // Neither sharing Envoys nor claiming a delivery needs the lock of the writers, so both use a reading connection.

    async fn share_envoys(&self, seen: &[SeenEnvoy], since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
        envoys::share(self.reader().await?.as_mut(), seen, since_ms).await
    }

    async fn claim_delivery(&self, delivery: &Delivery, lease: Duration) -> Result<bool> {
        // If two replicas come at once, the second waits for the first and then finds the condition false. `attempts`
        // shows whether there was an attempt in between. The lease is measured by the clock of the database, and is over
        // if that was set back since.
        let statement = Statement::new(
            "UPDATE alert_deliveries SET claimed_until = now() + $3 * interval '1 second'
             WHERE delivery_id = $1 AND attempts = $2 AND status = 'pending'
                 AND (claimed_until <= now() OR claimed_until > now() + interval '10 minutes')",
        );
        let statement = statement.bind(&delivery.delivery_id).bind(delivery.attempts).bind(lease.as_secs_f64());
        Ok(self.reader().await?.run(statement).await? > 0)
    }

    async fn close(&self) {
        // The listener has a connection of its own.
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Whether the same statement may succeed a moment later.
pub(super) fn is_busy(error: &dyn DatabaseError) -> bool {
    const RETRY: [&str; 9] = [
        // Too many connections.
        "53300", // Serialization failure and deadlock. Neither is expected, because writers run alone.
        "40001", "40P01",
        // The lock was not available in time, or the statement or the whole transaction took too long.
        "55P03", "57014", "25P03", // The server is stopping, has crashed, or is not up yet.
        "57P01", "57P02", "57P03",
    ];
    error.try_downcast_ref::<PgDatabaseError>().is_some_and(|error| RETRY.contains(&error.code()))
}
