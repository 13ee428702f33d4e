//! Writing connections that are closed instead of reused after something went wrong with them.
//!
//! If a disk is full, SQLite may roll back a transaction by itself, when a statement fails or when the commit does. Its
//! connection is then outside a transaction, where further statements would be written one by one, or it stays inside
//! one that can never be committed. A connection with a failed statement is therefore closed, which undoes what is left
//! of its transaction, and the pool opens another one. The same is done if the caller goes away during a statement.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection};

use super::files::Files;
use crate::store::{Connection, Result, Row, Statement, StoreError, Transaction};

/// The writing connection.
pub(super) struct Writer {
    connection: PoolConnection<Sqlite>,
    /// Whether a statement is running, was left behind, or has failed.
    is_broken: bool,
}

impl Writer {
    pub(super) fn new(connection: PoolConnection<Sqlite>) -> Self {
        Self { connection, is_broken: false }
    }

    async fn tried<T>(&mut self, statement: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T>) -> Result<T> {
        if self.is_broken {
            return Err(StoreError::Unavailable("an earlier statement of the connection has failed".to_owned()));
        }
        self.is_broken = true;
        let done = statement(&mut self.connection).await?;
        self.is_broken = false;
        Ok(done)
    }
}

#[async_trait]
impl Connection for Writer {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        let rows = self.tried(async |connection| statement.into_query().fetch_all(connection).await).await?;
        Ok(rows.into_iter().map(Row::Sqlite).collect())
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        let done = self.tried(async |connection| statement.into_query().execute(connection).await).await?;
        Ok(done.rows_affected())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.is_broken {
            self.connection.close_on_drop();
        }
    }
}

/// The lengths of the headers of the write-ahead log and of each frame in it.
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

/// Accepts that a file is shorter than before if it holds everything that SQLite has put there: as many pages as the database
/// says that it has, and as many frames as the log has according to its index, which is in memory.
pub(super) async fn accept_if_complete(files: &Files, connection: &mut Writer) -> Result<()> {
    let Some([database, log]) = files.shrunk() else { return Ok(()) };
    let Some([page_size, _]) = files.stated().filter(|[_, length]| database >= *length) else { return Ok(()) };
    let checkpoint = connection.row(Statement::new("PRAGMA wal_checkpoint(PASSIVE)")).await?;
    let frames = u64::try_from(checkpoint.integer::<i64>("log")?).unwrap_or(0);
    let needed = if frames == 0 { 0 } else { LOG_HEADER + frames.saturating_mul(FRAME_HEADER + page_size) };
    if log >= needed {
        files.accept([database, log]);
    }
    Ok(())
}

/// A transaction of the writing connection.
pub(super) struct SqliteTransaction {
    /// `None` once the transaction is committed.
    connection: Option<Writer>,
    files: Arc<Files>,
}

impl SqliteTransaction {
    pub(super) async fn begin(mut connection: Writer, files: Arc<Files>) -> Result<Self> {
        connection.run(Statement::new("BEGIN IMMEDIATE")).await?;
        Ok(Self { connection: Some(connection), files })
    }

    fn connection(&mut self) -> Result<&mut Writer> {
        self.connection.as_mut().ok_or_else(|| StoreError::Unavailable("the transaction is over".to_owned()))
    }
}

#[async_trait]
impl Connection for SqliteTransaction {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        self.connection()?.rows(statement).await
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        self.connection()?.run(statement).await
    }
}

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn commit(mut self: Box<Self>) -> Result<()> {
        self.connection()?.run(Statement::new("COMMIT")).await?;
        if let Some(mut connection) = self.connection.take() {
            // The commit may have made a checkpoint.
            accept_if_complete(&self.files, &mut connection).await?;
        }
        // Checked again, so that nothing is acknowledged that was written to a file which had just been removed.
        self.files.check()
    }
}

impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        // If the connection is broken it is closed, which rolls back as well.
        let Some(mut connection) = self.connection.take().filter(|connection| !connection.is_broken) else { return };
        match tokio::runtime::Handle::try_current() {
            // If this fails, the connection is closed.
            Ok(runtime) => drop(runtime.spawn(async move { connection.run(Statement::new("ROLLBACK")).await })),
            Err(_) => connection.is_broken = true,
        }
    }
}
