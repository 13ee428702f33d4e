//! A transaction that holds the lock of all writers from its start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::connection::PostgresConnection;
use super::watch::CHANNEL;
use crate::store::{Connection, Result, Row, Statement, StoreError, Transaction};

pub(super) struct PostgresTransaction {
    /// `None` once the transaction is committed.
    connection: Option<PostgresConnection>,
    /// What the other replicas are told if it is committed.
    payload: String,
    /// Set if a commit is left unanswered.
    in_doubt: Arc<AtomicBool>,
}

impl PostgresTransaction {
    pub(super) async fn begin(
        mut connection: PostgresConnection,
        replica: &str,
        in_doubt: Arc<AtomicBool>,
    ) -> Result<Self> {
        connection.run(Statement::new("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")).await?;
        let mut transaction = Self { connection: Some(connection), payload: String::new(), in_doubt };
        // This takes the lock and counts the commit. Another writer waits here until this one is done.
        let lock = Statement::new("UPDATE meta SET commits = commits + 1 RETURNING commits");
        let commits: i64 = transaction.row(lock).await?.integer("commits")?;
        transaction.payload = format!("{replica} {commits}");
        Ok(transaction)
    }

    fn connection(&mut self) -> Result<&mut PostgresConnection> {
        self.connection.as_mut().ok_or_else(|| StoreError::Unavailable("the transaction is over".to_owned()))
    }
}

#[async_trait]
impl Connection for PostgresTransaction {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        self.connection()?.rows(statement).await
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        self.connection()?.run(statement).await
    }
}

#[async_trait]
impl Transaction for PostgresTransaction {
    async fn commit(mut self: Box<Self>) -> Result<()> {
        let payload = std::mem::take(&mut self.payload);
        let connection = self.connection()?;
        if connection.has_failed() {
            // The database would answer COMMIT with success, and roll back.
            return Err(StoreError::Unavailable("a statement of the transaction has failed".to_owned()));
        }
        connection.run(Statement::new("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(payload)).await?;
        let committed = connection.run(Statement::new("COMMIT")).await;
        match committed {
            Ok(_) => self.connection = None,
            Err(_) => self.in_doubt.store(true, Ordering::SeqCst),
        }
        committed.map(drop)
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        // If the connection is waiting for an answer it is closed, and the database rolls back by itself.
        let Some(mut connection) = self.connection.take().filter(|connection| !connection.is_waiting()) else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                if connection.run(Statement::new("ROLLBACK")).await.is_err() {
                    connection.give_up();
                }
            })),
            Err(_) => connection.give_up(),
        }
    }
}
