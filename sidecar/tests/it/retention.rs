//! Deleting what has expired never keeps a kill waiting for long.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent_kill_switch::wire::{ScoreSample, Signals};
use kill_switch::service::Limits;
use kill_switch::store::{EXPIRE_AT_MOST, Store};
use tokio::sync::Semaphore;

use crate::cancelled::Gate;
use crate::support::{START_MS, Sidecar, eventually, kill};
use crate::sync::Watched;

const SCORES: usize = 5 * EXPIRE_AT_MOST as usize + 1;

/// Creates a database with many scores that have expired.
async fn fill(dir: &Path) {
    let store = Store::sqlite(&dir.join("test.db")).await.unwrap();
    let signals = Signals { similar_prompts: 1, ..Signals::default() };
    let scores = vec![ScoreSample { at_ms: START_MS - 30 * 24 * 3_600_000, sequence: 0, score: 1.0, signals }; SCORES];
    let mut tx = store.begin().await.unwrap();
    tx.append_scores(&[("a", &scores)], u32::MAX).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
}

async fn scores(store: &Store) -> usize {
    store.scores("a", 0, u32::MAX).await.unwrap().len()
}

#[tokio::test]
async fn a_kill_waits_for_one_small_transaction_at_most() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let gate = Arc::new(Gate { arrived: Semaphore::new(0), passes: Semaphore::new(0) });
    let (store, counts) = Watched::open(dir.path(), Some(Arc::clone(&gate))).await;
    let sidecar = Sidecar::over(store, Limits::default(), dir).await;

    let service = Arc::clone(&sidecar.service);
    let deleting = tokio::spawn(async move { service.expire().await });
    gate.arrived.acquire().await.unwrap().forget();
    let service = Arc::clone(&sidecar.service);
    let report = serde_json::from_value(kill("k", "b", 1)).unwrap();
    let reporting = tokio::spawn(async move { service.take_kill(report).await });
    eventually("the kill waits for the writer", async || counts.transactions.load(Ordering::SeqCst) == 2).await;
    assert!(!reporting.is_finished());

    // The first commit is that of the transaction that was under way, the second one that of the kill.
    gate.passes.add_permits(1);
    gate.arrived.acquire().await.unwrap().forget();
    gate.passes.add_permits(1);
    reporting.await.unwrap().unwrap();
    assert_eq!(scores(&sidecar.store).await, SCORES - EXPIRE_AT_MOST as usize);
    assert!(!deleting.is_finished());

    gate.passes.add_permits(SCORES);
    deleting.await.unwrap().unwrap();
    assert_eq!(scores(&sidecar.store).await, 0, "all of it is deleted in the end");
}

#[tokio::test]
async fn scores_beyond_a_lowered_limit_are_deleted_little_by_little() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let store = Store::sqlite(&dir.path().join("test.db")).await.unwrap();
    let new = store.scores("a", 0, 10).await.unwrap();
    for round in 1..=3 {
        let mut tx = store.begin().await.unwrap();
        tx.append_scores(&[("a", &new)], 100).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(scores(&store).await, SCORES - round * new.len());
    }
}
