//! A database in one SQLite file.
//!
//! The file uses a write-ahead log with `synchronous=FULL`: a commit that was acknowledged survives a power cut, and
//! readers never wait for the writer. There is exactly one writing connection, and its transactions take the write lock
//! at once (`BEGIN IMMEDIATE`): two transactions that read first and upgrade later would fail with `SQLITE_BUSY`.
//!
//! A transaction that fails may leave its connection in any state, so the connection is closed: see [`transaction`]. Every
//! transaction also makes sure that the file is still the one that was opened: see [`files`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteError, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::Mutex;

use super::{Connection, Database, Dialect, Result, Row, Statement, StoreError, Transaction, migrations};

mod files;
mod transaction;

use files::Files;
use transaction::{SqliteTransaction, Writer};

/// Connections for reading. More of them would only compete for the page cache.
const READERS: u32 = 4;
/// How long to wait until another process, such as a backup or `tokens --db`, releases the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the writing connection.
const WRITER_TIMEOUT: Duration = Duration::from_secs(10);

/// One process serves the file and knows by itself which deliveries it is attempting, so there are no claims.
const DIALECT: Dialect = Dialect {
    discovered: "discovered = 1 AND deleted = 0",
    and_unclaimed: "",
    and_release_claim: "",
    tables: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
        AND name <> '_sqlx_migrations'",
    columns: "SELECT name, type FROM pragma_table_info($1)",
    overriding: "",
    last_number: |table, _| Statement::new("SELECT seq AS number FROM sqlite_sequence WHERE name = $1").bind(table),
    set_last_number: |table, _, number| {
        // Other tables take the number after their highest one.
        let insert = Statement::new(
            "INSERT INTO sqlite_sequence (name, seq) SELECT $1, $2
             WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = $1 AND sql LIKE '%AUTOINCREMENT%')",
        );
        vec![Statement::new("DELETE FROM sqlite_sequence WHERE name = $1").bind(table), insert.bind(table).bind(number)]
    },
};

/// A SQLite file with one writing connection and some reading ones.
#[derive(Debug)]
pub struct Sqlite {
    reader: SqlitePool,
    writer: SqlitePool,
    /// A connection that is never used. SQLite removes the write-ahead log when the last connection is closed, and a log
    /// that is created again could not be told from one that somebody has replaced.
    anchor: Mutex<Option<SqliteConnection>>,
    files: Arc<Files>,
}

impl Sqlite {
    /// Opens the file, creates it if there is none, and brings its schema up to date. Only the owner can read the file
    /// afterwards.
    pub async fn open(path: &Path) -> Result<Self> {
        files::make_private(path).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let writer = pool(1).acquire_timeout(WRITER_TIMEOUT).connect_with(options.clone()).await?;
        let migrated = migrations::migrator(&migrations::SQLITE).run(&writer).await;
        migrated.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        // From here on, a file that is missing was removed, and must not be replaced by an empty one.
        let options = options.create_if_missing(false);
        writer.set_connect_options(options.clone());
        let options = options.read_only(true);
        let reader = pool(READERS).connect_with(options.clone()).await?;
        // All of them are opened now, so that the file can be read even if it is moved away later.
        join_all((0..READERS).map(|_| reader.acquire())).await.into_iter().collect::<sqlx::Result<Vec<_>>>()?;
        let mut anchor = options.connect().await?;
        // Reading opens the write-ahead log.
        sqlx::query("SELECT epoch FROM meta").fetch_all(&mut anchor).await?;
        let files = Files::opened(path).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self { reader, writer, anchor: Mutex::new(Some(anchor)), files: Arc::new(files) })
    }

    /// Returns the writing connection, if the files are in their places.
    async fn checked_writer(&self) -> Result<Writer> {
        if self.files.shrunk().is_some() {
            transaction::accept_if_complete(&self.files, &mut Writer::new(self.writer.acquire().await?)).await?;
        }
        // Checked before, because the pool may open a connection, which must not touch a file that is not ours.
        self.files.check()?;
        let mut connection = self.writer.acquire().await?;
        // Checked after, because the file may have been replaced while the connection was opened.
        if let Err(error) = self.files.check() {
            connection.close_on_drop();
            return Err(error);
        }
        Ok(Writer::new(connection))
    }
}

/// Returns the options of a pool that keeps its connections. One that is opened later could be to another file with the
/// same path.
fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(connections).max_lifetime(None).idle_timeout(None)
}

#[async_trait]
impl Database for Sqlite {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn reader(&self) -> Result<Box<dyn Connection>> {
        // Connections that are open can still read a file that was moved. Only opening one needs the file in its place.
        let may_open = self.reader.size() < READERS;
        if may_open {
            self.files.check()?;
        }
        let mut connection = self.reader.acquire().await?;
        if may_open && let Err(error) = self.files.check() {
            connection.close_on_drop();
            return Err(error);
        }
        Ok(Box::new(connection))
    }

    async fn writer(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(self.checked_writer().await?))
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        let connection = self.checked_writer().await?;
        Ok(Box::new(SqliteTransaction::begin(connection, Arc::clone(&self.files)).await?))
    }

    async fn try_write(&self, statement: Statement) -> Result<()> {
        // As a transaction, because that is how kills are written.
        let mut transaction = self.begin().await?;
        transaction.run(statement).await?;
        transaction.commit().await
    }

    async fn close(&self) {
        self.reader.close().await;
        if let Some(anchor) = self.anchor.lock().await.take() {
            // Nothing was written with it, so nothing is lost if this fails.
            let _ = anchor.close().await;
        }
        // The last one to be closed must be able to write, so that it empties the write-ahead log.
        self.writer.close().await;
    }
}

/// A connection for reading.
#[async_trait]
impl Connection for PoolConnection<sqlx::Sqlite> {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        Ok(statement.into_query().fetch_all(&mut **self).await?.into_iter().map(Row::Sqlite).collect())
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        Ok(statement.into_query().execute(&mut **self).await?.rows_affected())
    }
}

/// Whether another process holds the file: `SQLITE_BUSY` and `SQLITE_LOCKED` with any extended code.
pub(super) fn is_busy(error: &dyn DatabaseError) -> bool {
    has_code(error, [5, 6])
}

/// Whether the file is damaged: `SQLITE_CORRUPT` and `SQLITE_NOTADB` with any extended code.
pub(super) fn is_malformed(error: &dyn DatabaseError) -> bool {
    has_code(error, [11, 26])
}

fn has_code(error: &dyn DatabaseError, codes: [i32; 2]) -> bool {
    let code = error.try_downcast_ref::<SqliteError>().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| codes.contains(&(code & 0xff)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[tokio::test]
    async fn a_commit_that_was_acknowledged_survives_a_power_cut() {
        let dir = tempfile::tempdir().unwrap();
        let database = Sqlite::open(&dir.path().join("test.db")).await.unwrap();
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&database.writer).await.unwrap();
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&database.writer).await.unwrap();
        assert_eq!((journal.as_str(), synchronous), ("wal", 2), "2 is FULL");
    }

    /// Closes every connection of a pool, as errors do, and waits until that is done.
    async fn close_connections(pool: &SqlitePool) {
        while pool.size() > 0 {
            let Some(connection) = pool.try_acquire() else {
                tokio::task::yield_now().await;
                continue;
            };
            connection.close().await.unwrap();
        }
    }

    #[tokio::test]
    async fn connections_are_not_opened_to_another_file_with_the_same_path() {
        let dir = tempfile::tempdir().unwrap();
        let [path, elsewhere] = ["test.db", "elsewhere"].map(|name| dir.path().join(name));
        let database = Sqlite::open(&path).await.unwrap();
        let write = || database.try_write(Statement::new("UPDATE meta SET rev = rev + 1"));
        let rev = async || {
            let mut reader = database.reader().await?;
            reader.row(Statement::new("SELECT rev FROM meta")).await?.integer::<u64>("rev")
        };
        write().await.unwrap();
        assert_eq!(rev().await.unwrap(), 1);
        std::fs::rename(&path, &elsewhere).unwrap();
        for pool in [&database.writer, &database.reader] {
            close_connections(pool).await;
        }
        assert!(matches!(write().await, Err(StoreError::Replaced)));
        assert!(matches!(rev().await, Err(StoreError::Replaced)));
        assert!(!path.exists(), "no empty file was created");
        // The pool itself creates no file either, even if the check comes too early.
        assert!(database.writer.acquire().await.is_err());
        assert!(!path.exists());
        std::fs::rename(&elsewhere, &path).unwrap();
        write().await.unwrap();
        assert_eq!(rev().await.unwrap(), 2, "what was acknowledged before is there");
    }

    #[tokio::test]
    async fn connections_are_kept_for_as_long_as_the_sidecar_runs() {
        let dir = tempfile::tempdir().unwrap();
        let database = Sqlite::open(&dir.path().join("test.db")).await.unwrap();
        for (pool, connections) in [(&database.writer, 1), (&database.reader, READERS)] {
            let options = pool.options();
            assert_eq!((options.get_max_lifetime(), options.get_idle_timeout()), (None, None));
            assert_eq!(pool.size(), connections, "all of them are opened at once");
        }
    }

    #[tokio::test]
    async fn opening_again_migrates_nothing_and_keeps_the_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        let first = Store::sqlite(&path).await.unwrap();
        let meta = first.meta().await.unwrap();
        first.close().await;
        assert_eq!(Store::sqlite(&path).await.unwrap().meta().await.unwrap(), meta);
    }
}
