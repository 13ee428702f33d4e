//! A connection that is closed instead of reused after something went wrong with it.
//!
//! A database whose machine has disappeared does not answer: a statement would wait for a quarter of an hour, and so
//! would the pool, which tests a connection before it takes it back. So every statement has a time limit, and a
//! connection whose statement has not ended is closed, whether the limit was reached or the caller went away.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use tokio::time::timeout;

use crate::store::{Connection, Result, Row, Statement, StoreError};

/// The time limit of a statement. The limit in the database itself is shorter, so after this time nobody is there.
const SILENCE: Duration = Duration::from_secs(15);

/// One connection.
pub(super) struct PostgresConnection {
    connection: PoolConnection<Postgres>,
    /// Whether a statement is running, or was left behind unanswered.
    is_waiting: bool,
    has_failed: bool,
}

impl PostgresConnection {
    pub(super) fn new(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, is_waiting: false, has_failed: false }
    }

    /// Whether any statement has failed so far.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether a statement was left unanswered. The connection is of no further use then.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Closes the connection instead of returning it to the pool.
    pub(super) fn give_up(&mut self) {
        self.connection.close_on_drop();
    }

    async fn limited<T>(
        &mut self,
        statement: impl AsyncFnOnce(&mut sqlx::PgConnection) -> sqlx::Result<T>,
    ) -> Result<T> {
        self.is_waiting = true;
        let outcome = match timeout(SILENCE, statement(&mut self.connection)).await {
            Ok(outcome) => {
                self.is_waiting = false;
                outcome.map_err(StoreError::from)
            }
            Err(_) => Err(StoreError::Busy(format!("no answer within {} s", SILENCE.as_secs()))),
        };
        self.has_failed |= outcome.is_err();
        outcome
    }
}

#[async_trait]
impl Connection for PostgresConnection {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        let rows = self.limited(async |connection| statement.into_query().fetch_all(connection).await).await?;
        Ok(rows.into_iter().map(Row::Postgres).collect())
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        let done = self.limited(async |connection| statement.into_query().execute(connection).await).await?;
        Ok(done.rows_affected())
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        if self.is_waiting {
            self.give_up();
        }
    }
}
