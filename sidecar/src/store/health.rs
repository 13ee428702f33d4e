//! Remembers whether a write has failed a moment ago.
//!
//! The readiness probe writes less than a kill does, so on a disk that is almost full the probe may succeed although every
//! kill is refused. And a damaged file may be damaged only where the probe does not look.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Connection, Database, Dialect, EntryBus, Result, Row, Statement, Store, StoreError, Transaction};
use crate::model::{Delivery, Millis, SeenEnvoy};

/// How long a failure is remembered: as long as an Envoy waits at most before it sends a kill again.
const REMEMBERED: Duration = Duration::from_secs(5);

/// A write that has failed, or a file that turned out to be damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether the file is damaged.
    pub is_malformed: bool,
    /// The error of the database, for the log.
    pub reason: String,
}

/// The latest failure.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<(Instant, Failure)>>);

impl Health {
    fn noted<T>(&self, is_write: bool, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            let is_malformed = matches!(error, StoreError::Malformed(_));
            if is_malformed || is_write && matches!(error, StoreError::Unavailable(_)) {
                let failure = Failure { is_malformed, reason: error.to_string() };
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), failure));
            }
        }
        outcome
    }
}

impl Store {
    /// Returns what has failed within the last seconds, other than because the database was busy.
    pub fn recent_failure(&self) -> Option<Failure> {
        let latest = self.health.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().filter(|(at, _)| at.elapsed() < REMEMBERED).map(|(_, failure)| failure.clone())
    }
}

/// A database whose failures are noted.
pub(super) struct Observed<D> {
    pub inner: D,
    pub health: Arc<Health>,
}

/// A connection or transaction whose failures are noted.
struct ObservedConnection<C: ?Sized> {
    inner: Box<C>,
    health: Arc<Health>,
    is_write: bool,
}

impl<D> Observed<D> {
    fn observe<C: ?Sized>(&self, is_write: bool, inner: Result<Box<C>>) -> Result<Box<ObservedConnection<C>>> {
        let inner = self.health.noted(is_write, inner)?;
        Ok(Box::new(ObservedConnection { inner, health: Arc::clone(&self.health), is_write }))
    }
}

#[async_trait]
impl<D: Database> Database for Observed<D> {
    fn dialect(&self) -> &'static Dialect {
        self.inner.dialect()
    }

    async fn reader(&self) -> Result<Box<dyn Connection>> {
        Ok(self.observe(false, self.inner.reader().await)?)
    }

    async fn writer(&self) -> Result<Box<dyn Connection>> {
        Ok(self.observe(true, self.inner.writer().await)?)
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        Ok(self.observe(true, self.inner.begin().await)?)
    }

    async fn try_write(&self, statement: Statement) -> Result<()> {
        self.inner.try_write(statement).await
    }

    async fn changed_elsewhere(&self) {
        self.inner.changed_elsewhere().await;
    }

    async fn share_envoys(&self, seen: &[SeenEnvoy], since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
        self.inner.share_envoys(seen, since_ms).await
    }

    async fn claim_delivery(&self, delivery: &Delivery, lease: Duration) -> Result<bool> {
        self.inner.claim_delivery(delivery, lease).await
    }

    fn entry_bus(&self) -> Arc<dyn EntryBus> {
        self.inner.entry_bus()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl<C: Connection + ?Sized> Connection for ObservedConnection<C> {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        let outcome = self.inner.rows(statement).await;
        self.health.noted(self.is_write, outcome)
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        let outcome = self.inner.run(statement).await;
        self.health.noted(self.is_write, outcome)
    }
}

#[async_trait]
impl Transaction for ObservedConnection<dyn Transaction> {
    async fn commit(self: Box<Self>) -> Result<()> {
        let Self { inner, health, is_write } = *self;
        health.noted(is_write, inner.commit().await)
    }
}
