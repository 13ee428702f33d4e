//! Answers in which a model repeats itself: one event per agent and minute, a notice, and a kill without a score.

use serde_json::{Value, json};

use crate::alert_delivery::alerted;
use crate::support::{START_MS, Sidecar, assert_members, kill_with};

const REASON: &str = "the model repeated the same 12 words 17 times in one answer";

/// Reports that a model repeated itself in some answers, and writes what is due.
async fn seen(sidecar: &Sidecar, answers: u64) {
    let repetition = json!({"period": 12, "words": 204});
    let agent = json!({"agent_id": "a", "requests": answers, "answer_loops": answers, "repetition": repetition,
                       "repetition_ms": START_MS});
    sidecar.api.report("/v1/observations", json!({"envoy": "edge-1", "agents": [agent]})).await.ok();
    sidecar.service.write_observations().await.unwrap();
}

async fn answers_of_events(sidecar: &Sidecar) -> Vec<Value> {
    sidecar.api.events("event_type=answer_loop").await.iter().map(|event| event["answers"].clone()).collect()
}

#[tokio::test]
async fn an_answer_loop_is_recorded_once_with_what_was_repeated() {
    let sidecar = Sidecar::guarding("a").await;
    seen(&sidecar, 1).await;
    let [event] = sidecar.api.events("event_type=answer_loop").await.try_into().unwrap();
    let expected = json!({"agent_id": "a", "actor": "kill_switch", "generation": 1, "reason": REASON, "period": 12,
        "rounds": 17, "words": 204, "answers": 1, "envoy": "edge-1", "detected_at": "2024-01-15T10:30:00.000Z"});
    assert_members(&event, expected);
    assert_eq!(event.get("paused"), None);
    assert_eq!(sidecar.api.agent("a").await["active"], true);
}

#[tokio::test]
async fn further_answers_within_a_minute_are_counted_and_recorded_together() {
    let sidecar = Sidecar::guarding("a").await;
    for answers in [1, 2, 3] {
        seen(&sidecar, answers).await;
    }
    assert_eq!(answers_of_events(&sidecar).await, [1]);
    sidecar.pass(59);
    sidecar.service.write_observations().await.unwrap();
    assert_eq!(answers_of_events(&sidecar).await, [1]);
    sidecar.pass(1);
    sidecar.service.write_observations().await.unwrap();
    assert_eq!(answers_of_events(&sidecar).await, [5, 1], "newest first");
    sidecar.pass(120);
    sidecar.service.write_observations().await.unwrap();
    seen(&sidecar, 1).await;
    assert_eq!(answers_of_events(&sidecar).await, [1, 5, 1]);
}

#[tokio::test]
async fn a_pause_is_named_if_it_kept_an_answer_from_being_cut() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.patch("/v1/agents/a", json!({"answer_loop": "cut"})).await.ok();
    sidecar.api.put("/v1/pause", json!({"for_seconds": 60, "reason": "maintenance"})).await.ok();
    seen(&sidecar, 1).await;
    assert_eq!(sidecar.api.events("event_type=answer_loop").await[0]["paused"], true);
}

#[tokio::test]
async fn an_answer_loop_is_announced_and_has_a_cooldown_of_its_own() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    seen(&sidecar, 1).await;
    sidecar.deliver().await;
    let notice = receiver.take().remove(0).json();
    assert_eq!(notice["type"], "agent.answer_loop");
    assert_members(&notice["data"], json!({"reason": REASON, "period": 12, "rounds": 17, "dry_run": false}));
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, json!({}))).await.ok();
    sidecar.deliver().await;
    assert_eq!(receiver.types(), ["agent.kill_switch"]);
}

#[tokio::test]
async fn the_kill_of_an_answer_that_was_cut_has_no_score() {
    let sidecar = Sidecar::guarding("a").await;
    let more = json!({"reason": REASON, "repetition": {"period": 12, "words": 204}, "score": 0});
    let receipt = sidecar.api.report("/v1/kills", kill_with("k", "a", 1, more)).await.ok();
    assert_eq!(receipt["outcome"], "applied");
    let [event] = sidecar.api.events("event_type=kill_switch").await.try_into().unwrap();
    assert_members(&event, json!({"reason": REASON, "period": 12, "rounds": 17, "words": 204}));
    for member in ["score", "threshold", "similar_prompts", "matches", "repetition"] {
        assert_eq!(event.get(member), None, "{member}");
    }
    assert_eq!(sidecar.api.agent("a").await["reason"], REASON);
}
