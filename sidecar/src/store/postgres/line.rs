//! A connection for a few statements, which is thrown away rather than given back when something is wrong with it.
//!
//! A database whose machine is gone does not say so: a statement would wait for a quarter of an hour, and the pool,
//! which asks a connection how it is before it takes it back, for as long again. So every statement has a limit of
//! time, and a connection whose statement did not end, for that reason or because the caller went away, is closed.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Error as SqlxError, Postgres};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::store::{Result, StoreError};

/// The database's own limit is shorter: after this time there is nobody there.
const SILENCE: Duration = Duration::from_secs(15);

type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// One connection.
pub(super) struct Line {
    connection: PoolConnection<Postgres>,
    /// Whether a statement has not been answered.
    is_waiting: bool,
    has_failed: bool,
}

impl Line {
    pub(super) fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, is_waiting: false, has_failed: false }
    }

    /// Every row.
    pub(super) async fn rows(&mut self, statement: Statement<'_>) -> Result<Vec<PgRow>> {
        self.is_waiting = true;
        let answer = timeout(SILENCE, statement.fetch_all(&mut *self.connection)).await;
        self.answered(answer)
    }

    /// The one row, if there is one.
    pub(super) async fn optional(&mut self, statement: Statement<'_>) -> Result<Option<PgRow>> {
        self.is_waiting = true;
        let answer = timeout(SILENCE, statement.fetch_optional(&mut *self.connection)).await;
        self.answered(answer)
    }

    /// The one row.
    pub(super) async fn row(&mut self, statement: Statement<'_>) -> Result<PgRow> {
        self.is_waiting = true;
        let answer = timeout(SILENCE, statement.fetch_one(&mut *self.connection)).await;
        self.answered(answer)
    }

    /// How many rows were written.
    pub(super) async fn run(&mut self, statement: Statement<'_>) -> Result<u64> {
        self.is_waiting = true;
        let answer = timeout(SILENCE, statement.execute(&mut *self.connection)).await;
        self.answered(answer).map(|done| done.rows_affected())
    }

    /// Whether any statement has failed so far.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether a statement has not been answered: nothing more can be said on this connection.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Closes the connection instead of giving it back.
    pub(super) fn give_up(&mut self) {
        self.connection.close_on_drop();
    }

    fn answered<T>(&mut self, answer: std::result::Result<std::result::Result<T, SqlxError>, Elapsed>) -> Result<T> {
        let answer = match answer {
            Ok(answer) => {
                self.is_waiting = false;
                answer.map_err(StoreError::from)
            }
            Err(_) => Err(StoreError::Busy(format!("no answer within {} s", SILENCE.as_secs()))),
        };
        self.has_failed |= answer.is_err();
        answer
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_waiting {
            self.give_up();
        }
    }
}
