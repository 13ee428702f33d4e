//! Agents appear by their first traffic, scores are kept within bounds, and nobody can fill the database.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kill_switch::service::Limits;
use kill_switch::store::Store;
use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::{START_MS, Sidecar, eventually, kill};
use crate::sync::Watched;

fn seen<T: AsRef<str>>(ids: &[T]) -> Value {
    let agents: Vec<_> = ids.iter().map(|id| json!({"agent_id": id.as_ref(), "requests": 1})).collect();
    json!({"envoy": "edge", "agents": agents})
}

fn scores(id: &str, scores: &[(u64, f64)]) -> Value {
    let scores: Vec<_> = scores
        .iter()
        .map(|(at_ms, score)| {
            json!({"at_ms": at_ms, "score": score, "similar_prompts": 1, "similar_responses": 2,
                   "repeated_tool_calls": 3, "failures_in_a_row": 4, "repeated_steps": 5})
        })
        .collect();
    json!({"agents": [{"agent_id": id, "requests": 1, "scores": scores}]})
}

/// Posts observations and writes them to the database, as the sidecar does once a second. Returns the receipt.
async fn observe(sidecar: &Sidecar, report: Value) -> Value {
    let receipt = sidecar.api.report("/v1/observations", report).await.ok();
    sidecar.service.write_observations().await.unwrap();
    receipt
}

#[tokio::test]
async fn an_unknown_agent_appears_with_the_kill_switch_off_and_filters_are_told() {
    let sidecar = Sidecar::start().await;
    let receipt = observe(&sidecar, seen(&["new", "new2"])).await;
    assert_eq!(receipt, json!({"accepted": 2, "created": 2, "ignored": 0, "over_limit": 0}));
    let agent = sidecar.api.agent("new").await;
    assert_eq!((&agent["kill_switch_enabled"], &agent["active"]), (&json!(false), &json!(true)));
    assert_eq!(agent["first_seen"], "2024-01-15T10:30:00.000Z");
    assert_eq!(sidecar.api.sync("since=0").await.ok()["agents"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn many_reports_are_written_in_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let (store, counts) = Watched::open(dir.path(), None).await;
    let sidecar = Sidecar::over(store, Limits::default(), dir).await;
    for (call, created) in [(1.0, 1), (2.0, 0), (3.0, 0)] {
        let receipt = sidecar.api.report("/v1/observations", scores("a", &[(START_MS, call)])).await.ok();
        assert_eq!((&receipt["accepted"], &receipt["created"]), (&json!(1), &json!(created)));
    }
    assert_eq!(counts.transactions.load(Ordering::SeqCst), 0, "a kill report never waits behind observations");
    for _ in 0..2 {
        sidecar.service.write_observations().await.unwrap();
        assert_eq!(counts.transactions.load(Ordering::SeqCst), 1);
    }
    let kept = sidecar.api.get("/v1/agents/a/scores").await.ok();
    let kept: Vec<_> = kept["scores"].as_array().unwrap().iter().map(|sample| sample["score"].clone()).collect();
    assert_eq!(kept, [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn a_running_sidecar_writes_within_a_second_and_once_more_before_it_ends() {
    let (dir, mut process) = Process::start_in_new_dir(&[]);
    process.api.report("/v1/observations", seen(&["first"])).await.ok();
    eventually("the first agent is written", || async { process.api.get("/v1/agents/first").await.status == 200 })
        .await;
    process.api.report("/v1/observations", seen(&["last"])).await.ok();
    process.terminate();
    assert!(process.child.0.wait().unwrap().success());
    let store = Store::sqlite(&dir.path().join("kill-switch.db")).await.unwrap();
    assert!(store.agent("last").await.unwrap().is_some());
}

#[tokio::test]
async fn an_agent_that_is_deleted_before_its_observations_are_written_stays_deleted() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/observations", seen(&["a"])).await.ok();
    sidecar.api.delete("/v1/agents/a").await.ok();
    sidecar.service.write_observations().await.unwrap();
    sidecar.api.get("/v1/agents/a").await.problem(404);
}

#[tokio::test]
async fn last_seen_advances_and_first_seen_stays() {
    let sidecar = Sidecar::start().await;
    observe(&sidecar, seen(&["a"])).await;
    sidecar.pass(60);
    sidecar.api.report("/v1/observations", seen(&["a"])).await.ok();
    observe(&sidecar, json!({"agents": [{"agent_id": "a", "last_seen_ms": START_MS + 999_999_999}]})).await;
    let agent = sidecar.api.agent("a").await;
    assert_eq!(agent["first_seen"], "2024-01-15T10:30:00.000Z");
    assert_eq!(agent["last_seen"], "2024-01-15T10:31:00.000Z", "never later than the clock of the sidecar");
}

#[tokio::test]
async fn invented_ids_cannot_grow_the_database_past_the_limit() {
    let sidecar = Sidecar::with(Limits { max_discovered_agents: 5, ..Limits::default() }).await;
    sidecar.api.guarded("known").await;
    let ids: Vec<String> = (0..20).map(|n| format!("invented-{n:02}")).collect();
    let receipt = sidecar.api.report("/v1/observations", seen(&ids)).await.ok();
    assert_eq!(receipt, json!({"accepted": 5, "created": 5, "ignored": 0, "over_limit": 15}));
    for _ in ["before the first five are written", "after they are written"] {
        let receipt = observe(&sidecar, seen(&["another", "known", "invented-00"])).await;
        assert_eq!(receipt, json!({"accepted": 2, "created": 0, "ignored": 0, "over_limit": 1}));
    }
    assert_eq!(sidecar.store.discovered_agents().await.unwrap(), 5);
    assert_eq!(sidecar.api.put("/v1/agents/by-hand", json!({})).await.status, 201, "a person is not limited");
    let killed = sidecar.api.report("/v1/kills", kill("k", "known", 1)).await.ok();
    assert_eq!(killed["outcome"], "applied", "a kill of an agent that exists is not limited");
}

#[tokio::test]
async fn an_agent_whose_settings_a_person_changed_no_longer_counts_towards_the_limit() {
    let sidecar = Sidecar::with(Limits { max_discovered_agents: 1, ..Limits::default() }).await;
    observe(&sidecar, seen(&["a"])).await;
    sidecar.api.patch("/v1/agents/a", json!({"kill_switch_enabled": true})).await.ok();
    assert_eq!(observe(&sidecar, seen(&["b"])).await["created"], 1);
}

#[tokio::test]
async fn scores_are_listed_oldest_first_with_their_contributions() {
    let sidecar = Sidecar::start().await;
    observe(&sidecar, scores("a", &[(START_MS - 2_000, 1.5), (START_MS - 1_000, 4.0), (START_MS, 8.5)])).await;
    let listed = sidecar.api.get("/v1/agents/a/scores").await.ok();
    assert_eq!(listed["kill_switch_threshold"], 10.0);
    let values: Vec<_> = listed["scores"].as_array().unwrap().iter().map(|s| s["score"].clone()).collect();
    assert_eq!(values, [1.5, 4.0, 8.5]);
    assert_eq!(
        listed["scores"][0],
        json!({"at": "2024-01-15T10:29:58.000Z", "score": 1.5, "similar_prompts": 1, "similar_responses": 2,
               "repeated_tool_calls": 3, "failures_in_a_row": 4, "repeated_steps": 5})
    );
    let latest = sidecar.api.get("/v1/agents/a/scores?limit=1").await.ok();
    assert_eq!(latest["scores"][0]["score"], 8.5);
    let since = sidecar.api.get("/v1/agents/a/scores?since=2024-01-15T10:29:59Z").await.ok();
    assert_eq!(since["scores"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn scores_are_bounded_per_agent_and_in_age() {
    let limits = Limits { scores_per_agent: 10, score_retention: Duration::from_secs(3_600), ..Limits::default() };
    let sidecar = Sidecar::with(limits).await;
    for n in 0..5_u64 {
        let five: Vec<_> = (0..5).map(|m| (START_MS, (n * 5 + m) as f64)).collect();
        observe(&sidecar, scores("a", &five)).await;
    }
    let kept = sidecar.api.get("/v1/agents/a/scores").await.ok();
    let kept: Vec<_> = kept["scores"].as_array().unwrap().iter().map(|s| s["score"].as_f64().unwrap()).collect();
    assert_eq!(kept, (15..25).map(f64::from).collect::<Vec<_>>());
    sidecar.pass(3_601);
    sidecar.service.expire().await.unwrap();
    assert_eq!(sidecar.api.get("/v1/agents/a/scores").await.ok()["scores"], json!([]));
}

#[tokio::test]
async fn events_are_kept_for_ever_unless_a_retention_is_set() {
    for (retention, kept) in [(None, 1), (Some(Duration::from_secs(3_600)), 0)] {
        let sidecar = Sidecar::with(Limits { event_retention: retention, ..Limits::default() }).await;
        sidecar.api.guarded("a").await;
        sidecar.pass(365 * 24 * 3_600);
        sidecar.service.expire().await.unwrap();
        assert_eq!(sidecar.api.events("").await.len(), kept, "{retention:?}");
    }
}

#[tokio::test]
async fn absurdly_large_numbers_do_no_harm() {
    let sidecar = Sidecar::start().await;
    let most = u64::MAX;
    let absurd = json!({"agent_id": "a", "requests": most, "refused": most, "last_seen_ms": most,
                        "scores": [{"at_ms": most, "score": 1e308, "similar_prompts": u32::MAX,
                                    "similar_responses": 0, "repeated_tool_calls": 0}]});
    let report = json!({"envoy": "x".repeat(9_999), "agents": [absurd, absurd]});
    assert_eq!(observe(&sidecar, report).await["accepted"], 2);
    assert_eq!(sidecar.api.agent("a").await["last_seen"], "2024-01-15T10:30:00.000Z");
    assert_eq!(sidecar.api.get("/v1/agents/a/scores").await.ok()["scores"][0]["score"], 1e308);
}

#[tokio::test]
async fn a_report_with_too_many_agents_is_accepted_in_part() {
    let sidecar = Sidecar::start().await;
    let ids: Vec<String> = (0..1_005).map(|n| format!("a{n}")).collect();
    let receipt = observe(&sidecar, seen(&ids)).await;
    assert_eq!(receipt, json!({"accepted": 1_000, "created": 1_000, "ignored": 5, "over_limit": 0}));
    assert_eq!(sidecar.store.discovered_agents().await.unwrap(), 1_000);
}
