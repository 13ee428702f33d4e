//! A client that hangs up in the middle of a commit: what is committed is told to the filters all the same.

use std::sync::Arc;

use agent_kill_switch::wire::ScoreSample;
use async_trait::async_trait;
use kill_switch::model::{Agent, Event, KillRecord, Millis, NewEvent, Token};
use kill_switch::service::Limits;
use kill_switch::store::{
    AccessStore, AgentQuery, AlertStore, AlertTx, EventQuery, Expiry, Meta, Result, SqliteStore, Store, Tx,
};
use tokio::sync::Semaphore;

use crate::support::{Sidecar, eventually, kill};

#[tokio::test]
async fn a_report_whose_sender_hangs_up_during_the_commit_still_wakes_the_filters() {
    let dir = tempfile::tempdir().unwrap();
    let inner = SqliteStore::open(&dir.path().join("test.db")).await.unwrap();
    let store = Arc::new(Gated { inner, arrived: Arc::new(Semaphore::new(0)), gate: Arc::new(Semaphore::new(0)) });
    let sidecar = Sidecar::over(store.clone(), Limits::default(), dir).await;
    let service = Arc::clone(&sidecar.service);
    let report = serde_json::from_value(kill("k", "a", 1)).unwrap();
    let sending = tokio::spawn(async move { service.take_kill(report).await });
    store.arrived.acquire().await.unwrap().forget();
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    assert_eq!(sidecar.service.rev(), 0);
    store.gate.add_permits(1);
    eventually("filters hear of it", || async { sidecar.service.rev() == 1 }).await;
    assert!(!sidecar.store.agent("a").await.unwrap().unwrap().policy.active);
}

/// A store whose commits say that they have arrived, and wait to be let through.
struct Gated {
    inner: SqliteStore,
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

struct GatedTx {
    inner: Box<dyn Tx>,
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl Store for Gated {
    async fn begin(&self) -> Result<Box<dyn Tx>> {
        let (arrived, gate) = (Arc::clone(&self.arrived), Arc::clone(&self.gate));
        Ok(Box::new(GatedTx { inner: self.inner.begin().await?, arrived, gate }))
    }
    async fn meta(&self) -> Result<Meta> {
        self.inner.meta().await
    }
    async fn agent(&self, agent_id: &str) -> Result<Option<Agent>> {
        self.inner.agent(agent_id).await
    }
    async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        self.inner.agents(query).await
    }
    async fn changes(&self, since: u64, limit: u32) -> Result<Vec<Agent>> {
        self.inner.changes(since, limit).await
    }
    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        self.inner.events(query).await
    }
    async fn scores(&self, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>> {
        self.inner.scores(agent_id, since_ms, limit).await
    }
    async fn tokens(&self) -> Result<Vec<Token>> {
        self.inner.tokens().await
    }
    async fn pending_alerts(&self) -> Result<Vec<u64>> {
        self.inner.pending_alerts().await
    }
    fn alerts(&self) -> &dyn AlertStore {
        self.inner.alerts()
    }

    fn access(&self) -> &dyn AccessStore {
        self.inner.access()
    }

    async fn check_writable(&self, now_ms: Millis) -> Result<()> {
        self.inner.check_writable(now_ms).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Tx for GatedTx {
    fn alerts(&mut self) -> &mut dyn AlertTx {
        self.inner.alerts()
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.arrived.add_permits(1);
        self.gate.acquire().await.unwrap().forget();
        self.inner.commit().await
    }
    async fn agent(&mut self, agent_id: &str) -> Result<Option<Agent>> {
        self.inner.agent(agent_id).await
    }
    async fn save_agent(&mut self, agent: &Agent) -> Result<u64> {
        self.inner.save_agent(agent).await
    }
    async fn touch_agent(&mut self, agent_id: &str, seen_ms: Millis) -> Result<()> {
        self.inner.touch_agent(agent_id, seen_ms).await
    }
    async fn discovered_agents(&mut self) -> Result<u64> {
        self.inner.discovered_agents().await
    }
    async fn append_event(&mut self, event: &NewEvent) -> Result<u64> {
        self.inner.append_event(event).await
    }
    async fn enqueue_alert(&mut self, event_id: u64, created_ms: Millis, expires_ms: Millis) -> Result<()> {
        self.inner.enqueue_alert(event_id, created_ms, expires_ms).await
    }
    async fn kill(&mut self, kill_id: &str) -> Result<Option<KillRecord>> {
        self.inner.kill(kill_id).await
    }
    async fn applied_kill(&mut self, agent_id: &str, generation: u64) -> Result<Option<KillRecord>> {
        self.inner.applied_kill(agent_id, generation).await
    }
    async fn record_kill(&mut self, kill: &KillRecord) -> Result<()> {
        self.inner.record_kill(kill).await
    }
    async fn append_scores(&mut self, agent_id: &str, scores: &[ScoreSample], keep: u32) -> Result<()> {
        self.inner.append_scores(agent_id, scores, keep).await
    }
    async fn add_token(&mut self, token: &Token) -> Result<()> {
        self.inner.add_token(token).await
    }
    async fn revoke_token(&mut self, token_id: &str, now_ms: Millis) -> Result<bool> {
        self.inner.revoke_token(token_id, now_ms).await
    }
    async fn expire(&mut self, expiry: &Expiry) -> Result<()> {
        self.inner.expire(expiry).await
    }
}
