//! The bus of several replicas: a table whose rows live for some seconds, and a notification for each row.
//!
//! Rows are written outside the lock of the writers, one at a time under a lock of their own, so that they become visible
//! in the order of their ids. The table is unlogged. After a crash of the database it is empty, and its ids may begin
//! again; so a replica that has lost its connection reads all rows, and skips those that it knows by the number that
//! their writer gave them.
//!
//! Every replica writes a row at least once a second, so that the others know of it. A replica that hears of no other for
//! [`ALONE_AFTER`] is alone and keeps its messages in memory. It goes on writing its row each second, which has no messages
//! then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::CONNECTION_TIMEOUT;
use super::connection::PostgresConnection;
use crate::model::FleetMessage;
use crate::store::bus::{EntryBus, InProcess, PATIENCE};
use crate::store::{Connection as _, Result, Statement, StoreError};

/// The channel of the notifications.
const CHANNEL: &str = "kill_switch_fleet";
/// How many replicas are remembered before those that have fallen silent are forgotten.
const MAX_REPLICAS: usize = 100;
/// How long no other replica must have written a row until this one counts as alone.
const ALONE_AFTER: Duration = Duration::from_secs(5);

/// The connections of one replica to the bus.
pub(super) struct PostgresBus {
    pool: PgPool,
    options: PgConnectOptions,
    replica: String,
    number: AtomicU64,
    reader: Mutex<Reader>,
    /// When a row of another replica was last read. It begins with the start of this one, which knows nothing yet.
    heard: SyncMutex<Instant>,
    /// Messages that no other replica waits for.
    own: InProcess,
}

/// How far this replica has read.
#[derive(Default)]
struct Reader {
    listener: Option<PgListener>,
    /// When this replica last told the others that it is there.
    announced: Option<Instant>,
    /// The id of the last row.
    last_id: u64,
    /// The number of the last row of each replica.
    numbers: HashMap<String, u64>,
}

impl PostgresBus {
    pub(super) fn new(pool: PgPool, options: PgConnectOptions, replica: String) -> Self {
        let (number, heard) = (AtomicU64::new(1), SyncMutex::new(Instant::now()));
        Self { pool, options, replica, number, reader: Mutex::default(), heard, own: InProcess::default() }
    }

    fn is_alone(&self) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > ALONE_AFTER
    }

    async fn connection(&self) -> Result<PostgresConnection> {
        Ok(PostgresConnection::new(self.pool.acquire().await?))
    }

    /// Opens a connection that belongs to no pool.
    async fn listen(&self) -> Result<PgListener> {
        let options = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let pool = options.acquire_timeout(CONNECTION_TIMEOUT).connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }

    /// Reads the rows that are new to this replica.
    async fn read(&self, reader: &mut Reader) -> Result<Vec<FleetMessage>> {
        let sql = "SELECT id, replica, number, messages FROM fleet_messages WHERE id > $1 ORDER BY id";
        let rows = self.connection().await?.rows(Statement::new(sql).bind(reader.last_id)).await?;
        let mut all = Vec::new();
        if reader.numbers.len() > MAX_REPLICAS {
            reader.numbers.clear();
        }
        for row in &rows {
            reader.last_id = row.integer("id")?;
            let number: u64 = row.integer("number")?;
            let replica = row.text("replica")?;
            if replica != self.replica {
                *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            let known = reader.numbers.entry(replica).or_default();
            if number > *known {
                *known = number;
                // A replica of another version may write what this one cannot read.
                let messages: Vec<FleetMessage> = serde_json::from_str(&row.text("messages")?).unwrap_or_default();
                all.extend(messages);
            }
        }
        Ok(all)
    }

    /// Writes a row for all replicas.
    async fn write(&self, messages: &[FleetMessage]) -> Result<()> {
        let text = serde_json::to_string(messages).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let number = self.number.fetch_add(1, Ordering::SeqCst);
        let statement = Statement::new("SELECT publish_fleet_messages($1, $2, $3)");
        let statement = statement.bind(&self.replica).bind(number).bind(text);
        self.connection().await?.rows(statement).await.map(drop)
    }

    /// Waits for rows of the other replicas, but not for long, and reads them.
    async fn exchange(&self, reader: &mut Reader) -> Result<Vec<FleetMessage>> {
        let Some(listener) = &mut reader.listener else {
            reader.listener = Some(self.listen().await?);
            reader.last_id = 0;
            return self.read(reader).await;
        };
        // Notifications may be lost behind a pooler or a firewall, so the table is read after a while in any case.
        if reader.announced.is_none_or(|announced| announced.elapsed() >= PATIENCE) {
            reader.announced = Some(Instant::now());
            self.write(&[]).await?;
            return self.read(reader).await;
        }
        tokio::select! {
            () = self.own.published() => return Ok(Vec::new()),
            heard = timeout(PATIENCE, listener.try_recv()) => if let Ok(Err(_) | Ok(None)) = heard {
                reader.listener = None;
            },
        }
        self.read(reader).await
    }
}

#[async_trait]
impl EntryBus for PostgresBus {
    async fn publish(&self, messages: Vec<FleetMessage>) -> Result<()> {
        if self.is_alone() { self.own.publish(messages).await } else { self.write(&messages).await }
    }

    async fn receive(&self) -> Result<Vec<FleetMessage>> {
        let mut reader = self.reader.lock().await;
        let exchanged = self.exchange(&mut reader).await;
        let mut messages = self.own.take();
        match exchanged {
            Ok(others) => messages.extend(others),
            Err(error) if messages.is_empty() => return Err(error),
            // The next call meets the error again.
            Err(_) => {}
        }
        Ok(messages)
    }
}
