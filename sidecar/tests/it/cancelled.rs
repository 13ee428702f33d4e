//! A client that disconnects during the commit of its report: the filters are told of what was committed anyway.

use std::sync::Arc;

use async_trait::async_trait;
use kill_switch::service::Limits;
use kill_switch::store::{Connection, Result, Row, Statement, Transaction};
use tokio::sync::Semaphore;

use crate::support::{Sidecar, eventually, kill};
use crate::sync::Watched;

#[tokio::test]
async fn a_report_whose_sender_disconnects_during_the_commit_still_wakes_the_filters() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate { arrived: Semaphore::new(0), passes: Semaphore::new(0) });
    let (store, _) = Watched::open(dir.path(), Some(Arc::clone(&gate))).await;
    let sidecar = Sidecar::over(store, Limits::default(), dir).await;
    let service = Arc::clone(&sidecar.service);
    let report = serde_json::from_value(kill("k", "a", 1)).unwrap();
    let sending = tokio::spawn(async move { service.take_kill(report).await });
    gate.arrived.acquire().await.unwrap().forget();
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    assert_eq!(sidecar.service.rev(), 0);
    gate.passes.add_permits(1);
    eventually("the filters are told", || async { sidecar.service.rev() == 1 }).await;
    assert!(!sidecar.store.agent("a").await.unwrap().unwrap().policy.active);
}

/// Where commits announce themselves and wait until they are let through.
pub struct Gate {
    pub arrived: Semaphore,
    pub passes: Semaphore,
}

/// A transaction whose commit waits at a gate.
pub struct GatedTransaction {
    pub inner: Box<dyn Transaction>,
    pub gate: Arc<Gate>,
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
        self.gate.arrived.add_permits(1);
        self.gate.passes.acquire().await.unwrap().forget();
        self.inner.commit().await
    }
}
