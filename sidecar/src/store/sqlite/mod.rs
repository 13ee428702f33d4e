//! The store in one SQLite file.
//!
//! Write-ahead log with `synchronous=FULL`: a commit that was acknowledged survives a power cut, and readers never wait
//! for the writer. There is exactly one writing connection, and its transactions take the write lock at once
//! (`BEGIN IMMEDIATE`): two that read first and upgrade later would deadlock into `SQLITE_BUSY`.
//!
//! Statements are spelt out and prepared by sqlx; nothing here decides anything.

use std::path::Path;
use std::time::Duration;

use agent_kill_switch::wire::ScoreSample;
use async_trait::async_trait;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteError, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::migrations::migrator;
use super::{AccessStore, AgentQuery, AlertStore, EventQuery, Meta, Result, Store, StoreError, Tx, row};
use crate::model::{Agent, Event, Millis, Token};

mod access;
mod alerts;
mod read;
mod write;

/// Reads run beside each other; more connections than this only fight over the page cache.
const READERS: u32 = 4;
/// How long to wait for another process, such as a backup or `tokens --db`, to let go of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for one's turn to write.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// A SQLite file: one writing connection, some reading ones.
#[derive(Debug)]
pub struct SqliteStore {
    reader: SqlitePool,
    writer: SqlitePool,
}

impl SqliteStore {
    /// Opens the file, creating it if there is none, and brings its schema up to date.
    pub async fn open(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(TURN_TIMEOUT)
            .connect_with(options.clone())
            .await?;
        migrator(&STEPS).run(&writer).await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let reader = SqlitePoolOptions::new().max_connections(READERS).connect_with(options.read_only(true)).await?;
        Ok(Self { reader, writer })
    }
}

const STEPS: [(&str, &str); 3] = [
    ("initial", include_str!("../../../migrations/sqlite/0001_initial.sql")),
    ("alerts", include_str!("../../../migrations/sqlite/0002_alerts.sql")),
    ("access", include_str!("../../../migrations/sqlite/0003_access.sql")),
];

#[async_trait]
impl Store for SqliteStore {
    async fn meta(&self) -> Result<Meta> {
        read::meta(&self.reader).await
    }

    async fn agent(&self, agent_id: &str) -> Result<Option<Agent>> {
        read::agent(&self.reader, agent_id).await
    }

    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        read::agents(&self.reader, query).await
    }

    async fn changes(&self, since: u64, limit: u32) -> Result<Vec<Agent>> {
        read::changes(&self.reader, since, limit).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        read::events(&self.reader, query).await
    }

    async fn scores(&self, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>> {
        read::scores(&self.reader, agent_id, since_ms, limit).await
    }

    async fn tokens(&self) -> Result<Vec<Token>> {
        read::tokens(&self.reader).await
    }

    async fn pending_alerts(&self) -> Result<Vec<u64>> {
        read::pending_alerts(&self.reader).await
    }

    fn alerts(&self) -> &dyn AlertStore {
        self
    }

    fn access(&self) -> &dyn AccessStore {
        self
    }

    async fn check_writable(&self, now_ms: Millis) -> Result<()> {
        let statement = "UPDATE meta SET checked_ms = ?";
        sqlx::query(statement).bind(row::to_i64(now_ms)).execute(&self.writer).await?;
        Ok(())
    }

    async fn begin(&self) -> Result<Box<dyn Tx>> {
        let tx = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        Ok(Box::new(write::SqliteTx::new(tx)))
    }

    async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Whether another process holds the file: `SQLITE_BUSY` and `SQLITE_LOCKED`, whatever their extended codes.
pub(super) fn is_busy(error: &dyn DatabaseError) -> bool {
    const RETRY: [i32; 2] = [5, 6];
    let code = error.try_downcast_ref::<SqliteError>().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| RETRY.contains(&(code & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_that_was_acknowledged_survives_a_power_cut() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("test.db")).await.unwrap();
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&store.writer).await.unwrap();
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&store.writer).await.unwrap();
        assert_eq!((journal.as_str(), synchronous), ("wal", 2), "2 is FULL");
    }

    #[tokio::test]
    async fn opening_again_migrates_nothing_and_keeps_the_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        let first = SqliteStore::open(&path).await.unwrap();
        let meta = first.meta().await.unwrap();
        first.close().await;
        assert_eq!(SqliteStore::open(&path).await.unwrap().meta().await.unwrap(), meta);
    }
}
