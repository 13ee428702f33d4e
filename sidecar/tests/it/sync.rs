//! What filters are told: everything in the first answer, then each change at once, and nothing while nothing changes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent_kill_switch::wire::SyncAnswer;
use async_trait::async_trait;
use kill_switch::model::Agent;
use kill_switch::service::{Limits, SyncRequest, Synced};
use kill_switch::store::{Connection, Database, Dialect, Result, Sqlite, Store, Transaction};
use serde_json::json;

use crate::cancelled::{Gate, GatedTransaction};
use crate::support::{Sidecar, kill};

fn ids(answer: &SyncAnswer) -> Vec<&str> {
    answer.agents.iter().map(|agent| agent.agent_id.as_str()).collect()
}

#[tokio::test]
async fn the_first_answer_is_full_and_the_next_ones_are_differences() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    api.guarded("b").await;
    let first = api.sync("").await.synced();
    assert!(first.full && !first.more);
    assert_eq!(ids(&first), ["a", "b"]);
    let cursor = |answer: &SyncAnswer| format!("epoch={}&since={}", answer.epoch, answer.rev);
    assert_eq!(api.sync(&cursor(&first)).await.status, 304);
    api.patch("/v1/agents/b", json!({"kill_switch_threshold": 3})).await.ok();
    let second = api.sync(&cursor(&first)).await.synced();
    assert!(!second.full);
    assert_eq!(ids(&second), ["b"]);
    api.delete("/v1/agents/a").await;
    let third = api.sync(&cursor(&second)).await.synced();
    assert_eq!((ids(&third), third.deleted.as_slice()), (vec![], ["a".to_owned()].as_slice()));
    assert_eq!(api.sync(&cursor(&third)).await.status, 304);
    let caught_up = api.sync(&cursor(&first)).await.synced();
    let changes = (ids(&caught_up), caught_up.deleted.len());
    assert_eq!(changes, (vec!["b"], 1), "a filter that missed answers gets all changes");
}

#[tokio::test]
async fn an_empty_sidecar_answers_once_and_then_waits_as_long_as_it_is_asked_to() {
    let sidecar = Sidecar::start().await;
    let first = sidecar.api.sync("").await.synced();
    assert_eq!((first.rev, first.full, first.agents.len()), (0, true, 0));
    for wait in [0, 1] {
        let begun = Instant::now();
        assert_eq!(sidecar.api.sync(&format!("epoch={}&since=0&wait={wait}", first.epoch)).await.status, 304);
        assert!(begun.elapsed() >= Duration::from_secs(wait), "a poll that waits {wait} s");
    }
}

#[tokio::test]
async fn an_unknown_epoch_or_revision_gets_a_full_answer() {
    let sidecar = Sidecar::guarding("a").await;
    let epoch = sidecar.api.sync("").await.synced().epoch;
    for query in ["epoch=another&since=1".to_owned(), format!("epoch={epoch}&since=999")] {
        let full = sidecar.api.sync(&format!("{query}&wait=20")).await.synced();
        assert!(full.full, "{query}");
        assert_eq!((ids(&full), full.rev), (vec!["a"], 1));
    }
}

#[tokio::test]
async fn a_waiting_poll_is_woken_by_a_change() {
    let sidecar = Sidecar::guarding("a").await;
    let api = sidecar.api.clone();
    let first = api.sync("").await.synced();
    let mut delays = Vec::new();
    let mut cursor = first.rev;
    for round in 0..10 {
        let poll = api.poll(&format!("w{round}"), &first.epoch, cursor).await;
        api.report("/v1/kills", kill(&format!("k{round}"), &format!("agent-{round}"), 1)).await.ok();
        let changed = Instant::now();
        let (changes, arrived) = poll.await.unwrap();
        assert_eq!(ids(&changes), [format!("agent-{round}")]);
        cursor = changes.rev;
        delays.push(arrived.saturating_duration_since(changed));
    }
    println!("woken after {delays:?}");
    // On an idle machine it takes a few milliseconds. A poll that was not woken would end after 50 seconds.
    assert!(delays.iter().min().unwrap() < &Duration::from_millis(500), "{delays:?}");
}

#[tokio::test]
async fn pages_of_a_full_answer_are_marked_and_miss_no_change_in_between() {
    let sidecar = Sidecar::start().await;
    let mut tx = sidecar.store.begin().await.unwrap();
    for n in 0..2_500 {
        tx.save_agent(&Agent::new(&format!("agent-{n:04}"), 1)).await.unwrap();
    }
    tx.commit().await.unwrap();
    // The service learns of revisions from its own changes, so this one brings it up to date.
    sidecar.api.guarded("last").await;
    let mut known = std::collections::BTreeMap::new();
    let mut query = "envoy=edge".to_owned();
    let mut pages = 0;
    loop {
        let page = sidecar.api.sync(&query).await.synced();
        pages += 1;
        assert!(page.full, "every page is marked as part of a full answer");
        for agent in page.agents {
            known.insert(agent.agent_id.clone(), agent);
        }
        page.deleted.iter().for_each(|id| drop(known.remove(id)));
        if pages == 1 {
            sidecar.api.patch("/v1/agents/agent-0000", json!({"kill_switch_threshold": 3})).await.ok();
            sidecar.api.delete("/v1/agents/agent-0001").await;
        }
        query = format!("envoy=edge&epoch={}&since={}", page.epoch, page.rev);
        if !page.more {
            break;
        }
    }
    assert_eq!((pages, known.len()), (3, 2_500));
    assert_eq!(known["agent-0000"].kill_switch_threshold, 3.0);
    assert!(!known.contains_key("agent-0001"));
    assert_eq!(sidecar.api.sync(&query).await.status, 304);
    sidecar.api.guarded("later").await;
    assert!(!sidecar.api.sync(&query).await.synced().full, "after the last page the answers are differences");
}

#[tokio::test]
async fn each_envoy_is_listed_with_the_revision_it_has_applied() {
    let sidecar = Sidecar::guarding("a").await;
    let first = sidecar.api.sync("envoy=edge-1").await.synced();
    sidecar.api.sync("envoy=edge-2").await;
    sidecar.api.sync(&format!("envoy=edge-1&epoch={}&since={}", first.epoch, first.rev)).await;
    let listed = sidecar.api.get("/v1/envoys").await.ok();
    assert_eq!(
        listed,
        json!({"current_rev": 1, "envoys": [
            {"envoy": "edge-1", "connected": true, "applied_rev": 1, "last_seen": "2024-01-15T10:30:00.000Z"},
            {"envoy": "edge-2", "connected": true, "applied_rev": null, "last_seen": "2024-01-15T10:30:00.000Z"},
        ]})
    );
    sidecar.pass(60);
    assert_eq!(sidecar.api.get("/v1/envoys").await.ok()["envoys"][0]["connected"], false);
    let metrics = sidecar.api.get("/metrics").await.text;
    assert!(metrics.contains("kill_switch_sync_age_seconds{envoy=\"edge-1\"} 60"), "{metrics}");
}

#[tokio::test]
async fn thousands_of_waiting_polls_are_all_told_of_a_change_and_end_when_the_sidecar_stops() {
    let sidecar = Sidecar::guarding("a").await;
    let epoch = sidecar.api.sync("").await.synced().epoch;
    let start_polls = |since: u64| {
        let polls: Vec<_> = (0..3_000)
            .map(|n| {
                let (service, epoch) = (Arc::clone(&sidecar.service), epoch.clone());
                let wait = Duration::from_secs(50);
                let request = SyncRequest { epoch, since, wait, envoy: format!("envoy-{}", n % 900) };
                tokio::spawn(async move { service.sync(&request).await.unwrap() })
            })
            .collect();
        polls
    };
    let polls = start_polls(1);
    sidecar.api.patch("/v1/agents/a", json!({"kill_switch_threshold": 3})).await.ok();
    for poll in polls {
        assert!(matches!(poll.await.unwrap(), Synced::Answer(answer) if answer.rev == 2));
    }
    let polls = start_polls(2);
    sidecar.service.stop();
    for poll in polls {
        assert_eq!(poll.await.unwrap(), Synced::Unchanged);
    }
}

#[tokio::test]
async fn a_poll_that_finds_nothing_new_touches_no_table() {
    let dir = tempfile::tempdir().unwrap();
    let (store, counts) = Watched::open(dir.path(), None).await;
    let sidecar = Sidecar::over(store, Limits::default(), dir).await;
    sidecar.api.guarded("a").await;
    let epoch = sidecar.api.sync("envoy=edge").await.synced().epoch;
    // The filter has got this change from another replica, so no page was read here.
    sidecar.api.guarded("b").await;
    let used = || (counts.statements.load(Ordering::SeqCst), counts.transactions.load(Ordering::SeqCst));
    let before = used();
    for _ in 0..20 {
        assert_eq!(sidecar.api.sync(&format!("envoy=edge&epoch={epoch}&since=2")).await.status, 304);
    }
    assert_eq!(used(), before);
    sidecar.api.agent("a").await;
    assert_eq!(used(), (before.0 + 1, before.1), "reading an agent is counted");
}

/// A database that counts how often it is used, and whose commits wait at a gate if it has one.
pub struct Watched {
    inner: Sqlite,
    counts: Arc<Counts>,
    gate: Option<Arc<Gate>>,
}

/// How often a database was used.
#[derive(Default)]
pub struct Counts {
    pub statements: AtomicUsize,
    pub transactions: AtomicUsize,
}

impl Watched {
    pub async fn open(dir: &Path, gate: Option<Arc<Gate>>) -> (Arc<Store>, Arc<Counts>) {
        let counts = Arc::<Counts>::default();
        let inner = Sqlite::open(&dir.join("test.db")).await.unwrap();
        (Arc::new(Store::new(Self { inner, counts: Arc::clone(&counts), gate })), counts)
    }
}

#[async_trait]
impl Database for Watched {
    fn dialect(&self) -> &'static Dialect {
        self.inner.dialect()
    }

    async fn reader(&self) -> Result<Box<dyn Connection>> {
        self.counts.statements.fetch_add(1, Ordering::SeqCst);
        self.inner.reader().await
    }

    async fn writer(&self) -> Result<Box<dyn Connection>> {
        self.counts.statements.fetch_add(1, Ordering::SeqCst);
        self.inner.writer().await
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>> {
        self.counts.transactions.fetch_add(1, Ordering::SeqCst);
        let inner = self.inner.begin().await?;
        let Some(gate) = self.gate.clone() else { return Ok(inner) };
        Ok(Box::new(GatedTransaction { inner, gate }))
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
