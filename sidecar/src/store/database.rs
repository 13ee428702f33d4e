//! What a database must provide. Everything that SQLite and PostgreSQL do differently is behind these traits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{EntryBus, InProcess, Result, Row, Statement, StoreError};
use crate::model::{Delivery, Millis, SeenEnvoy};

/// A database.
#[async_trait]
pub trait Database: Send + Sync + 'static {
    /// Returns the parts of statements that differ between databases.
    fn dialect(&self) -> &'static Dialect;
    /// Returns a connection for single statements that read.
    async fn reader(&self) -> Result<Box<dyn Connection>>;
    /// Returns a connection for single statements that write.
    async fn writer(&self) -> Result<Box<dyn Connection>>;
    /// Starts a transaction once every other writer, in this process or another one, is done.
    async fn begin(&self) -> Result<Box<dyn Transaction>>;
    /// Runs a statement that writes, to find out whether the database can be written.
    async fn try_write(&self, statement: Statement) -> Result<()> {
        self.writer().await?.run(statement).await.map(drop)
    }
    /// Completes when another process may have committed something since the last call. One caller at a time.
    ///
    /// By default there is no other process, and this never completes.
    async fn changed_elsewhere(&self) {
        std::future::pending().await
    }
    /// Tells the other replicas which Envoys poll here, and returns every Envoy that any replica has heard from since
    /// `since_ms`.
    ///
    /// By default there are no other replicas, and the list is empty.
    async fn share_envoys(&self, _seen: &[SeenEnvoy], _since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
        Ok(Vec::new())
    }
    /// Reserves the next attempt at a delivery for this process until its outcome is saved or the lease ends. Returns
    /// false if another process has reserved it, or has made that attempt in the meantime.
    ///
    /// By default there is no other process, and the attempt is always free.
    async fn claim_delivery(&self, _delivery: &Delivery, _lease: Duration) -> Result<bool> {
        Ok(true)
    }
    /// Returns the bus by which replicas tell each other of calls.
    ///
    /// By default there are no other replicas, and nothing leaves the process.
    fn entry_bus(&self) -> Arc<dyn EntryBus> {
        Arc::<InProcess>::default()
    }
    /// Closes every connection.
    async fn close(&self);
}

/// A connection that runs statements.
#[async_trait]
pub trait Connection: Send {
    /// Runs a statement and returns every row of its result.
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>>;
    /// Runs a statement and returns how many rows it has written.
    async fn run(&mut self, statement: Statement) -> Result<u64>;
    /// Runs a statement and returns the first row of its result, if there is one.
    async fn optional_row(&mut self, statement: Statement) -> Result<Option<Row>> {
        Ok(self.rows(statement).await?.into_iter().next())
    }
    /// Runs a statement whose result always has a row, and returns that row.
    async fn row(&mut self, statement: Statement) -> Result<Row> {
        let row = self.optional_row(statement).await?;
        row.ok_or_else(|| StoreError::Unavailable("a row that must exist is missing".to_owned()))
    }
}

/// A connection inside a transaction. Dropping it without a commit undoes everything.
#[async_trait]
pub trait Transaction: Connection {
    /// Makes every change of the transaction permanent.
    async fn commit(self: Box<Self>) -> Result<()>;
}

/// The parts of statements that differ between databases.
#[derive(Debug)]
pub struct Dialect {
    /// The condition for agents that only traffic created, written as their partial index has it.
    pub discovered: &'static str,
    /// A further condition for deliveries that no other process is attempting.
    pub and_unclaimed: &'static str,
    /// A further assignment that gives up the claim on a delivery.
    pub and_release_claim: &'static str,
    /// Lists the names of all tables but those of the migrations.
    pub tables: &'static str,
    /// Lists name and type of the columns of the table `$1`.
    pub columns: &'static str,
    /// What an INSERT needs before VALUES in order to give a row its number.
    pub overriding: &'static str,
    /// Reads the last number that the database gave to a row of a table, in a column, if it knows that.
    pub last_number: fn(&'static str, &'static str) -> Statement,
    /// Sets the last number that the database gave to a row of a table, in a column.
    pub set_last_number: fn(&'static str, &'static str, u64) -> Vec<Statement>,
}
