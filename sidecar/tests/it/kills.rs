//! A kill is recorded once, whoever reports it and however often.

use futures_util::future::join_all;
use kill_switch::model::Agent;
use kill_switch::service::Limits;
use serde_json::json;

use crate::support::{Answer, Sidecar, assert_members, key, kill, kill_with, stop, stop_with};

#[tokio::test]
async fn a_repeated_report_is_accepted_once() {
    let sidecar = Sidecar::guarding("a").await;
    let first = sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(first["outcome"], "applied");
    for _ in 0..3 {
        let again = sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
        assert_eq!((&again["outcome"], &again["event_id"]), (&json!("duplicate"), &first["event_id"]));
    }
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 1);
}

#[tokio::test]
async fn forty_envoys_that_report_the_same_loop_at_once_cause_one_kill() {
    let sidecar = Sidecar::guarding("a").await;
    let reports = (0..40).map(|n| sidecar.api.report("/v1/kills", kill(&format!("k{n}"), "a", 1)));
    let receipts = join_all(reports).await.into_iter().map(Answer::ok);
    let (applied, others): (Vec<_>, Vec<_>) = receipts.partition(|receipt| receipt["outcome"] == "applied");
    assert_eq!(applied.len(), 1);
    assert!(others.iter().all(|receipt| receipt["outcome"] == "duplicate"), "{others:?}");
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 1);
    assert_eq!(sidecar.api.outbox_depth().await, 1);
}

#[tokio::test]
async fn a_report_of_a_generation_that_is_over_is_acknowledged_and_changes_nothing() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    let before = sidecar.api.get("/v1/agents/a").await;
    let late = sidecar.api.report("/v1/kills", kill("k2", "a", 1)).await.ok();
    assert_eq!((&late["outcome"], &late["generation"]), (&json!("stale"), &json!(2)));
    let after = sidecar.api.get("/v1/agents/a").await;
    assert_eq!((before.etag(), before.json()["active"].clone()), (after.etag(), json!(true)));
    let stale = sidecar.api.events("event_type=kill_stale").await;
    assert_eq!(stale.len(), 1);
    assert_eq!((&stale[0]["generation"], &stale[0]["current_generation"]), (&json!(1), &json!(2)));
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 1);
    let second = sidecar.api.report("/v1/kills", kill("k3", "a", 2)).await.ok();
    assert_eq!(second["outcome"], "applied", "the next generation can be killed again");
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 2);
}

#[tokio::test]
async fn a_kill_of_an_unknown_agent_creates_the_agent_with_that_generation() {
    let sidecar = Sidecar::start().await;
    sidecar.api.report("/v1/kills", kill("k", "unknown", 7)).await.ok();
    let created = json!({"active": false, "generation": 7, "first_seen": "2024-01-15T10:29:59.995Z"});
    assert_members(&sidecar.api.agent("unknown").await, created);
}

#[tokio::test]
async fn a_higher_generation_is_adopted() {
    let sidecar = Sidecar::guarding("a").await;
    let receipt = sidecar.api.report("/v1/kills", kill("k", "a", 5)).await.ok();
    assert_eq!((&receipt["outcome"], &receipt["generation"]), (&json!("applied"), &json!(5)));
    let agent = sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    assert_eq!(agent["generation"], 6, "higher than that of any filter");
}

#[tokio::test]
async fn a_report_cannot_use_up_the_generations_of_an_agent() {
    let sidecar = Sidecar::guarding("a").await;
    for (agent_id, generation) in [("a", 1 << 53), ("a", 100_002), ("unknown", 1 << 53), ("unknown", 100_001)] {
        let report = kill(&format!("{agent_id}-{generation}"), agent_id, generation);
        let problem = sidecar.api.report("/v1/kills", report).await.problem(422);
        assert_eq!(problem["field"], "generation", "{problem}");
    }
    assert_members(&sidecar.api.agent("a").await, json!({"active": true, "generation": 1}));
    // The highest generation that is accepted leaves room for the next ones.
    let receipt = sidecar.api.report("/v1/kills", kill("high", "a", 100_001)).await.ok();
    assert_eq!((&receipt["outcome"], &receipt["generation"]), (&json!("applied"), &json!(100_001)));
    let agent = sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    assert_eq!(agent["generation"], 100_002);
    let receipt = sidecar.api.report("/v1/kills", kill("next", "a", 100_002)).await.ok();
    assert_eq!(receipt["outcome"], "applied", "the next kill can be recorded");
}

#[tokio::test]
async fn an_agent_whose_generations_were_used_up_before_can_still_be_killed() {
    let sidecar = Sidecar::start().await;
    let mut tx = sidecar.store.begin().await.unwrap();
    tx.save_agent(&Agent::new("a", 1 << 53)).await.unwrap();
    tx.commit().await.unwrap();
    let generation = sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok()["generation"].as_u64().unwrap();
    let receipt = sidecar.api.report("/v1/kills", kill("k", "a", generation)).await.ok();
    assert_eq!((generation, &receipt["outcome"]), ((1 << 53) + 1, &json!("applied")));
}

#[tokio::test]
async fn reports_cannot_create_more_agents_than_traffic_may() {
    let sidecar = Sidecar::with(Limits { max_discovered_agents: 3, ..Limits::default() }).await;
    sidecar.api.guarded("known").await;
    sidecar.api.report("/v1/observations", json!({"agents": [{"agent_id": "seen"}]})).await.ok();
    sidecar.service.write_observations().await.unwrap();
    let reports = ["deactivate", "observe", "block", "deactivate", "observe", "block"];
    for (n, action) in reports.into_iter().enumerate() {
        let report = kill_with(&format!("k{n}"), &format!("invented-{n}"), 1, json!({"action": action}));
        let answer = sidecar.api.report("/v1/kills", report).await;
        if n < 2 {
            answer.ok();
        } else {
            assert_eq!(answer.problem(422)["field"], "agent_id", "{n}");
        }
    }
    assert_eq!(sidecar.store.discovered_agents().await.unwrap(), 3);
    let stop = stop("s", "invented-9", 1);
    assert_eq!(sidecar.api.report("/v1/kills", stop).await.problem(422)["field"], "agent_id");
    // Agents that exist can be killed, however many there are.
    for agent_id in ["known", "seen", "invented-1"] {
        let receipt = sidecar.api.report("/v1/kills", kill(agent_id, agent_id, 1)).await.ok();
        assert_eq!(receipt["outcome"], "applied", "{agent_id}");
    }
    // A deleted agent is unknown too.
    sidecar.api.delete("/v1/agents/known").await;
    assert_eq!(sidecar.api.report("/v1/kills", kill("late", "known", 1)).await.ok()["outcome"], "stale");
    let problem = sidecar.api.report("/v1/kills", kill("later", "known", 2)).await.problem(422);
    assert_eq!(problem["field"], "agent_id");
}

#[tokio::test]
async fn a_report_cannot_use_up_the_releases_of_a_conversation() {
    let sidecar = Sidecar::guarding("a").await;
    let report = |kill_id: &str, releases: u32| {
        let session = json!({"key": key(1), "id": "chat", "releases": releases});
        stop_with(kill_id, "a", 1, json!({"session": session}))
    };
    for releases in [u32::MAX, 1_001] {
        let problem = sidecar.api.report("/v1/kills", report("high", releases)).await.problem(422);
        assert_eq!(problem["field"], "session.releases", "{problem}");
    }
    for releases in [1_000, 1_001] {
        let receipt = sidecar.api.report("/v1/kills", report(&format!("k{releases}"), releases)).await.ok();
        assert_eq!(receipt["outcome"], "stopped", "{releases}");
        sidecar.api.post(&format!("/v1/agents/a/sessions/{}/resume", key(1)), json!({})).await.ok();
    }
}

#[tokio::test]
async fn a_kill_id_that_was_used_for_another_agent_is_a_conflict() {
    let sidecar = Sidecar::start().await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    let problem = sidecar.api.report("/v1/kills", kill("k", "b", 1)).await.problem(409);
    assert_eq!(problem["field"], "kill_id");
    sidecar.api.get("/v1/agents/b").await.problem(404);
}

#[tokio::test]
async fn a_report_without_a_reason_gets_one_from_its_numbers() {
    let sidecar = Sidecar::start().await;
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, json!({"reason": ""}))).await.ok();
    assert_eq!(
        sidecar.api.events("agent_id=a").await[0]["reason"],
        "score 13 exceeded 10: 5 similar prompts, 4 similar responses, 0 repeated tool calls in the last 20 calls"
    );
}

#[tokio::test]
async fn evidence_that_is_too_long_is_cut_and_the_kill_is_not_lost() {
    let sidecar = Sidecar::start().await;
    let long = json!({
        "reason": "ä".repeat(50_000), "excerpt": "x".repeat(50_000), "tools": vec!["t".repeat(5_000); 100],
        "matches": vec![json!({"calls_ago": 1, "age_ms": 1, "prompt_hash": "00"}); 500], "from_the_future": true,
    });
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, long)).await.ok();
    let events = sidecar.api.events("agent_id=a").await;
    assert_eq!(events[0]["reason"].as_str().unwrap().chars().count(), 2_000);
    assert_eq!(events[0]["excerpt"].as_str().unwrap().len(), 2_000);
    assert_eq!(events[0]["tools"].as_array().unwrap().len(), 32);
    assert_eq!(events[0]["matches"].as_array().unwrap().len(), 100);
}
