//! Agents appear by their first traffic, scores are kept within bounds, and nobody can fill the database.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kill_switch::service::Limits;
use serde_json::{Value, json};

use crate::support::{START_MS, Sidecar, kill};

fn seen(ids: &[&str]) -> Value {
    let agents: Vec<_> = ids.iter().map(|id| json!({"agent_id": id, "requests": 1})).collect();
    json!({"envoy": "edge", "agents": agents})
}

fn scores(id: &str, scores: &[(u64, f64)]) -> Value {
    let scores: Vec<_> = scores
        .iter()
        .map(|(at_ms, score)| {
            json!({"at_ms": at_ms, "score": score, "similar_prompts": 1, "similar_responses": 2,
                   "repeated_tool_calls": 3})
        })
        .collect();
    json!({"agents": [{"agent_id": id, "requests": 1, "scores": scores}]})
}

#[tokio::test]
async fn an_unknown_agent_appears_with_the_kill_switch_off_and_filters_hear_of_it() {
    let sidecar = Sidecar::start().await;
    let receipt = sidecar.api.report("/v1/observations", seen(&["new", "new2"])).await.ok();
    assert_eq!(receipt, json!({"accepted": 2, "created": 2, "ignored": 0, "over_limit": 0}));
    let agent = sidecar.api.agent("new").await;
    assert_eq!((&agent["kill_switch_enabled"], &agent["active"]), (&json!(false), &json!(true)));
    assert_eq!(agent["first_seen"], "2024-01-15T10:30:00.000Z");
    assert_eq!(sidecar.api.sync("since=0").await.ok()["agents"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn last_seen_moves_on_and_first_seen_stays() {
    let sidecar = Sidecar::start().await;
    sidecar.api.report("/v1/observations", seen(&["a"])).await.ok();
    sidecar.clock.fetch_add(60_000, Ordering::SeqCst);
    sidecar.api.report("/v1/observations", seen(&["a"])).await.ok();
    let ahead = json!({"agents": [{"agent_id": "a", "last_seen_ms": START_MS + 999_999_999}]});
    sidecar.api.report("/v1/observations", ahead).await.ok();
    let agent = sidecar.api.agent("a").await;
    assert_eq!(agent["first_seen"], "2024-01-15T10:30:00.000Z");
    assert_eq!(agent["last_seen"], "2024-01-15T10:31:00.000Z", "no clock but ours may say that it is later");
}

#[tokio::test]
async fn invented_ids_cannot_grow_the_database_past_the_limit() {
    let sidecar = Sidecar::with(Limits { max_discovered_agents: 5, ..Limits::default() }).await;
    sidecar.api.guarded("known").await;
    let ids: Vec<String> = (0..20).map(|n| format!("invented-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let receipt = sidecar.api.report("/v1/observations", seen(&ids)).await.ok();
    assert_eq!(receipt, json!({"accepted": 5, "created": 5, "ignored": 0, "over_limit": 15}));
    let receipt = sidecar.api.report("/v1/observations", seen(&["another", "known", "invented-0"])).await.ok();
    assert_eq!(receipt, json!({"accepted": 2, "created": 0, "ignored": 0, "over_limit": 1}));
    assert_eq!(sidecar.api.put("/v1/agents/by-hand", json!({})).await.status, 201, "a person is not limited");
    let killed = sidecar.api.report("/v1/kills", kill("k", "killed", 1)).await.ok();
    assert_eq!(killed["outcome"], "applied", "nor is a kill");
}

#[tokio::test]
async fn an_agent_that_a_person_took_up_makes_room_for_another() {
    let sidecar = Sidecar::with(Limits { max_discovered_agents: 1, ..Limits::default() }).await;
    sidecar.api.report("/v1/observations", seen(&["a"])).await.ok();
    sidecar.api.patch("/v1/agents/a", json!({"kill_switch_enabled": true})).await.ok();
    let receipt = sidecar.api.report("/v1/observations", seen(&["b"])).await.ok();
    assert_eq!(receipt["created"], 1);
}

#[tokio::test]
async fn scores_are_listed_oldest_first_with_their_contributions() {
    let sidecar = Sidecar::start().await;
    let report = scores("a", &[(START_MS - 2_000, 1.5), (START_MS - 1_000, 4.0), (START_MS, 8.5)]);
    sidecar.api.report("/v1/observations", report).await.ok();
    let listed = sidecar.api.get("/v1/agents/a/scores").await.ok();
    assert_eq!(listed["kill_switch_threshold"], 10.0);
    let values: Vec<_> = listed["scores"].as_array().unwrap().iter().map(|s| s["score"].clone()).collect();
    assert_eq!(values, [1.5, 4.0, 8.5]);
    assert_eq!(
        listed["scores"][0],
        json!({"at": "2024-01-15T10:29:58.000Z", "score": 1.5, "similar_prompts": 1, "similar_responses": 2,
               "repeated_tool_calls": 3})
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
        sidecar.api.report("/v1/observations", scores("a", &five)).await.ok();
    }
    let kept = sidecar.api.get("/v1/agents/a/scores").await.ok();
    let kept: Vec<_> = kept["scores"].as_array().unwrap().iter().map(|s| s["score"].as_f64().unwrap()).collect();
    assert_eq!(kept, (15..25).map(f64::from).collect::<Vec<_>>());
    sidecar.clock.fetch_add(3_601_000, Ordering::SeqCst);
    sidecar.service.forget_the_old().await.unwrap();
    assert_eq!(sidecar.api.get("/v1/agents/a/scores").await.ok()["scores"], json!([]));
}

#[tokio::test]
async fn events_are_kept_for_ever_unless_told_otherwise() {
    for (retention, kept) in [(None, 1), (Some(Duration::from_secs(3_600)), 0)] {
        let sidecar = Sidecar::with(Limits { event_retention: retention, ..Limits::default() }).await;
        sidecar.api.guarded("a").await;
        sidecar.clock.fetch_add(365 * 24 * 3_600_000, Ordering::SeqCst);
        sidecar.service.forget_the_old().await.unwrap();
        assert_eq!(sidecar.api.events("").await.len(), kept, "{retention:?}");
    }
}

#[tokio::test]
async fn numbers_beyond_all_reason_do_no_harm() {
    let sidecar = Sidecar::start().await;
    let most = u64::MAX;
    let absurd = json!({"agent_id": "a", "requests": most, "refused": most, "last_seen_ms": most,
                        "scores": [{"at_ms": most, "score": 1e308, "similar_prompts": u32::MAX,
                                    "similar_responses": 0, "repeated_tool_calls": 0}]});
    let report = json!({"envoy": "x".repeat(9_999), "agents": [absurd, absurd]});
    assert_eq!(sidecar.api.report("/v1/observations", report).await.ok()["accepted"], 2);
    assert_eq!(sidecar.api.agent("a").await["last_seen"], "2024-01-15T10:30:00.000Z");
    assert_eq!(sidecar.api.get("/v1/agents/a/scores").await.ok()["scores"][0]["score"], 1e308);
}

#[tokio::test]
async fn a_report_with_too_many_agents_is_taken_in_part() {
    let sidecar = Sidecar::start().await;
    let ids: Vec<String> = (0..1_005).map(|n| format!("a{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let receipt = sidecar.api.report("/v1/observations", seen(&ids)).await.ok();
    assert_eq!(receipt, json!({"accepted": 1_000, "created": 1_000, "ignored": 5, "over_limit": 0}));
}
