//! The bus of several replicas: a table whose rows live for some seconds, and a notification for each row.
//!
//! Rows are written outside the lock of the writers, one at a time under a lock of their own, so that they become visible
//! in the order of their ids. The table is unlogged. After a crash of the database it is empty, and its ids may begin
//! again; so a replica that has lost its connection reads all rows, and skips those that it knows by the number that
//! their writer gave them.
//!
//! A replica that has nothing to tell writes an empty row about once a second, so that the others know of it. One that can
//! read the table and finds no row of another one for [`ALONE_AFTER`] is alone. It keeps its messages in memory then, and
//! goes on writing empty rows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as SyncMutex, MutexGuard, PoisonError};
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
/// How long no row of another replica must have been there until this one counts as alone. Finding out late costs little.
const ALONE_AFTER: Duration = Duration::from_secs(15);
/// The number of an empty row. It is never new, so it can be written beside rows that are.
const EMPTY: u64 = 0;

/// The connections of one replica to the bus.
pub(super) struct PostgresBus {
    pool: PgPool,
    options: PgConnectOptions,
    replica: String,
    number: AtomicU64,
    reader: Mutex<Reader>,
    times: SyncMutex<Times>,
    /// Messages that no other replica waits for.
    own: InProcess,
}

/// What happened last.
struct Times {
    /// When there was a row of another replica, or may have been one that could not be read.
    heard: Instant,
    /// When this replica wrote a row.
    written: Option<Instant>,
}

/// How far this replica has read.
#[derive(Default)]
struct Reader {
    listener: Option<PgListener>,
    /// The id of the last row.
    last_id: u64,
    /// The number of the last row of each replica.
    numbers: HashMap<String, u64>,
}

impl PostgresBus {
    pub(super) fn new(pool: PgPool, options: PgConnectOptions, replica: String) -> Self {
        let times = SyncMutex::new(Times { heard: Instant::now(), written: None });
        let (number, reader) = (AtomicU64::new(EMPTY + 1), Mutex::default());
        Self { pool, options, replica, number, reader, times, own: InProcess::default() }
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
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
                self.times().heard = Instant::now();
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
    async fn write(&self, number: u64, messages: &[FleetMessage]) -> Result<()> {
        let text = serde_json::to_string(messages).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let statement = Statement::new("SELECT publish_fleet_messages($1, $2, $3)");
        let statement = statement.bind(&self.replica).bind(number).bind(text);
        self.connection().await?.rows(statement).await?;
        self.times().written = Some(Instant::now());
        Ok(())
    }

    /// Waits for rows, but not for long, and reads them.
    async fn exchange(&self, reader: &mut Reader) -> Result<Vec<FleetMessage>> {
        let Some(listener) = &mut reader.listener else {
            reader.listener = Some(self.listen().await?);
            reader.last_id = 0;
            return self.read(reader).await;
        };
        let written = self.times().written;
        if written.is_none_or(|written| written.elapsed() >= PATIENCE) {
            self.write(EMPTY, &[]).await?;
        } else {
            // Notifications may be lost behind a pooler or a firewall, so the table is read after a while in any case.
            tokio::select! {
                () = self.own.published() => return Ok(Vec::new()),
                heard = timeout(PATIENCE, listener.try_recv()) => if let Ok(Err(_) | Ok(None)) = heard {
                    reader.listener = None;
                },
            }
        }
        self.read(reader).await
    }
}

#[async_trait]
impl EntryBus for PostgresBus {
    async fn publish(&self, messages: Vec<FleetMessage>) -> Result<()> {
        let is_alone = self.times().heard.elapsed() > ALONE_AFTER;
        if is_alone {
            return self.own.publish(messages).await;
        }
        self.write(self.number.fetch_add(1, Ordering::SeqCst), &messages).await
    }

    async fn receive(&self) -> Result<Vec<FleetMessage>> {
        let mut reader = self.reader.lock().await;
        let exchanged = self.exchange(&mut reader).await;
        let own = self.own.take();
        match exchanged {
            Ok(messages) => Ok([messages, own].concat()),
            Err(error) => {
                // Others may be there, unnoticed. From now on messages go to the table, where this error is met again.
                self.times().heard = Instant::now();
                if own.is_empty() { Err(error) } else { Ok(own) }
            }
        }
    }
}
