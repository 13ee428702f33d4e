//! A backup that is restored: no filter may take the revisions after it for those of the database that was lost.

use std::path::Path;
use std::sync::Arc;

use agent_kill_switch::wire::SyncAnswer;
use kill_switch::service::Limits;
use kill_switch::store::Store;
use serde_json::json;

use crate::store::open_postgres;
use crate::support::Sidecar;
use crate::support::postgres::{database, execute};

/// A sidecar that has just been started over a database.
async fn started(store: Arc<Store>) -> Sidecar {
    Sidecar::over(store, Limits::default(), tempfile::tempdir().unwrap()).await
}

async fn open(path: &Path) -> Arc<Store> {
    Arc::new(Store::sqlite(path).await.unwrap())
}

fn cursor(answer: &SyncAnswer) -> String {
    format!("epoch={}&since={}", answer.epoch, answer.rev)
}

/// What an Envoy knows that has heard of everything.
async fn synced(sidecar: &Sidecar) -> SyncAnswer {
    sidecar.api.sync("").await.synced()
}

/// Changes that are lost, and the two cursors of Envoys that know of some and of all of them.
async fn change_what_will_be_lost(sidecar: &Sidecar) -> [String; 2] {
    sidecar.api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    let first = cursor(&synced(sidecar).await);
    sidecar.api.patch("/v1/agents/b", json!({"kill_switch_threshold": 12})).await.ok();
    [first, cursor(&synced(sidecar).await)]
}

/// Checks that Envoys with lost revisions start over, and the one that knows the backup's last revision does not.
async fn check(sidecar: &Sidecar, lost: [String; 2], kept: &str) {
    for threshold in 3..8 {
        sidecar.api.patch("/v1/agents/c", json!({"kill_switch_threshold": threshold})).await.ok();
        for cursor in &lost {
            let answer = sidecar.api.sync(cursor).await.synced();
            assert!(answer.full, "{cursor} is of the database that was lost");
            assert_eq!(answer.agents.len(), 3);
        }
    }
    let answer = sidecar.api.sync(kept).await.synced();
    assert_eq!((answer.full, answer.agents.len()), (false, 1), "the change of c is all that is new");
    assert_eq!(sidecar.api.sync(&cursor(&answer)).await.status, 304);
}

async fn with_three_agents(store: Arc<Store>) -> (Sidecar, String) {
    let sidecar = started(store).await;
    for id in ["a", "b", "c"] {
        sidecar.api.guarded(id).await;
    }
    let kept = cursor(&synced(&sidecar).await);
    (sidecar, kept)
}

#[tokio::test]
async fn filters_start_over_after_a_backup_even_if_its_revision_has_passed_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["test.db", "copy.db"].map(|name| dir.path().join(name));
    for is_restarted_after_the_backup in [false, true] {
        let _ = std::fs::remove_file(&path);
        let (mut sidecar, kept) = with_three_agents(open(&path).await).await;
        // The file has everything while nothing is being written, because the database is closed.
        sidecar.store.close().await;
        std::fs::copy(&path, &copy).unwrap();
        sidecar = started(open(&path).await).await;
        if is_restarted_after_the_backup {
            // As a change of an earlier start, whose branch is in the backup.
            sidecar.api.patch("/v1/agents/c", json!({"kill_switch_threshold": 2})).await.ok();
            sidecar.store.close().await;
            sidecar = started(open(&path).await).await;
        }
        let lost = change_what_will_be_lost(&sidecar).await;
        sidecar.store.close().await;
        std::fs::copy(&copy, &path).unwrap();
        check(&started(open(&path).await).await, lost, &kept).await;
    }
}

#[tokio::test]
async fn filters_start_over_after_a_backup_that_was_made_while_the_sidecar_was_running() {
    let Some(url) = database().await else { return };
    let (sidecar, kept) = with_three_agents(open_postgres(&url).await).await;
    execute(&url, "CREATE SCHEMA copy; CREATE TABLE copy.agents AS TABLE agents; CREATE TABLE copy.meta AS TABLE meta")
        .await;
    let lost = change_what_will_be_lost(&sidecar).await;
    sidecar.store.close().await;
    let restored = "TRUNCATE agents, meta; INSERT INTO agents SELECT * FROM copy.agents;
                    INSERT INTO meta SELECT * FROM copy.meta";
    execute(&url, restored).await;
    check(&started(open_postgres(&url).await).await, lost, &kept).await;
}

#[tokio::test]
async fn filters_do_not_start_over_because_the_sidecar_was_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let (mut sidecar, mut known) = with_three_agents(open(&path).await).await;
    for threshold in 3..6 {
        sidecar.store.close().await;
        sidecar = started(open(&path).await).await;
        assert_eq!(sidecar.api.sync(&known).await.status, 304, "nothing has changed");
        sidecar.api.patch("/v1/agents/c", json!({"kill_switch_threshold": threshold})).await.ok();
        let answer = sidecar.api.sync(&known).await.synced();
        assert_eq!((answer.full, answer.agents.len()), (false, 1), "the change of c is all that is new");
        known = cursor(&answer);
    }
}

#[tokio::test]
async fn filters_do_not_start_over_because_they_ask_another_replica() {
    let Some(url) = database().await else { return };
    let a = with_three_agents(open_postgres(&url).await).await.0;
    let b = started(open_postgres(&url).await).await;
    let mut known = cursor(&synced(&a).await);
    for (threshold, [changed, asked]) in [(3, [&a, &b]), (4, [&b, &a]), (5, [&a, &b]), (6, [&b, &a])] {
        changed.api.patch("/v1/agents/c", json!({"kill_switch_threshold": threshold})).await.ok();
        let answer = changed.api.sync(&known).await.synced();
        assert_eq!((answer.full, answer.agents.len()), (false, 1));
        known = cursor(&answer);
        assert_eq!(asked.api.sync(&known).await.status, 304, "the other replica knows the revision");
    }
}
