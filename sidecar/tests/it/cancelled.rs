//! A client that disconnects during the commit of its report: the filters are told of what was committed anyway.

use std::sync::Arc;

use async_trait::async_trait;
use kill_switch::service::Limits;
use kill_switch::store::{Connection, Database, Dialect, Result, Row, Sqlite, Statement, Store, Transaction};
use tokio::sync::Semaphore;

use crate::support::{Sidecar, eventually, kill};

#[tokio::test]
async fn a_report_whose_sender_disconnects_during_the_commit_still_wakes_the_filters() {
    let dir = tempfile::tempdir().unwrap();
    let inner = Sqlite::open(&dir.path().join("test.db")).await.unwrap();
    let (arrived, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let store = Store::new(Gated { inner, arrived: Arc::clone(&arrived), gate: Arc::clone(&gate) });
    let sidecar = Sidecar::over(Arc::new(store), Limits::default(), dir).await;
    let service = Arc::clone(&sidecar.service);
    let report = serde_json::from_value(kill("k", "a", 1)).unwrap();
    let sending = tokio::spawn(async move { service.take_kill(report).await });
    arrived.acquire().await.unwrap().forget();
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    assert_eq!(sidecar.service.rev(), 0);
    gate.add_permits(1);
    eventually("the filters are told", || async { sidecar.service.rev() == 1 }).await;
    assert!(!sidecar.store.agent("a").await.unwrap().unwrap().policy.active);
}

/// A database whose commits announce themselves and wait until they are let through.
struct Gated {
    inner: Sqlite,
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

struct GatedTransaction {
    inner: Box<dyn Transaction>,
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl Database for Gated {
    fn dialect(&self) -> &'static Dialect {
        self.inner.dialect()
    }

    async fn reader(&self) -> Result<Box<dyn Connection>> {
        self.inner.reader().await
    }

    async fn writer(&self) -> Result<Box<dyn Connection>> {
        self.inner.writer().await
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        let (arrived, gate) = (Arc::clone(&self.arrived), Arc::clone(&self.gate));
        Ok(Box::new(GatedTransaction { inner: self.inner.begin().await?, arrived, gate }))
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Connection for GatedTransaction {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<Row>> {
        self.inner.rows(statement).await
    }

    async fn run(&mut self, statement: Statement) -> Result<u64> {
        self.inner.run(statement).await
    }
}

#[async_trait]
impl Transaction for GatedTransaction {
    async fn commit(self: Box<Self>) -> Result<()> {
        self.arrived.add_permits(1);
        self.gate.acquire().await.unwrap().forget();
        self.inner.commit().await
    }
}
