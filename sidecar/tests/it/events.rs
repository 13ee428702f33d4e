//! Specification, "Record kill switch event" and "Record blocked event", and the log of all other events.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::support::{START_MS, Sidecar, assert_members, kill, kill_with};

#[tokio::test]
async fn a_kill_is_recorded_with_everything_that_led_to_it() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    let events = sidecar.api.events("event_type=kill_switch").await;
    assert_eq!(events.len(), 1);
    let expected = json!({
        "event_type": "kill_switch", "agent_id": "a", "generation": 1, "actor": "kill_switch",
        "deactivated_by": "kill_switch", "kill_id": "k1", "envoy": "edge-1", "score": 13.0, "threshold": 10.0,
        "window_size": 20, "similar_prompts": 5, "similar_responses": 4, "repeated_tool_calls": 0,
        "reason": "the same prompt and the same answer 5 times in the last 6 calls", "tools": ["read_file"],
        "at": "2024-01-15T10:30:00.000Z", "detected_at": "2024-01-15T10:29:59.995Z",
    });
    assert_members(&events[0], expected);
    assert_eq!(events[0]["matches"][0]["response_distance"], 1);
    assert_eq!(events[0].get("excerpt"), None, "there is an excerpt only if the filter sent one");
}

#[tokio::test]
async fn a_loop_is_never_recorded_as_detected_in_the_future_or_in_1970() {
    let sidecar = Sidecar::guarding("a").await;
    for (id, at_ms) in [("none", 0), ("ahead", START_MS + 3_600_000)] {
        let report = kill_with(id, "a", 1, json!({"action": "observe", "at_ms": at_ms}));
        sidecar.api.report("/v1/kills", report).await.ok();
        let events = sidecar.api.events("event_type=would_kill").await;
        assert_eq!(events[0]["detected_at"], "2024-01-15T10:30:00.000Z", "{id}");
    }
}

#[tokio::test]
async fn a_block_is_recorded_as_blocked_and_the_agent_stays_active() {
    let sidecar = Sidecar::guarding("a").await;
    let block = |id: &str| kill_with(id, "a", 1, json!({"action": "block"}));
    assert_eq!(sidecar.api.report("/v1/kills", block("b1")).await.ok()["outcome"], "blocked");
    assert_eq!(sidecar.api.report("/v1/kills", block("b2")).await.ok()["outcome"], "blocked");
    assert_eq!(sidecar.api.report("/v1/kills", block("b2")).await.ok()["outcome"], "duplicate");
    let events = sidecar.api.events("event_type=blocked").await;
    assert_eq!(events.len(), 2, "a generation may be blocked again");
    let expected = json!({"blocked": true, "block_reason": "loop_detected", "retry_after_seconds": 60});
    assert_members(&events[0], expected);
    assert_members(&sidecar.api.agent("a").await, json!({"active": true, "deactivated_by": null}));
}

#[tokio::test]
async fn an_observed_loop_is_recorded_as_would_kill_and_the_agent_stays_active() {
    let sidecar = Sidecar::guarding("a").await;
    let receipt = sidecar.api.report("/v1/kills", kill_with("o", "a", 1, json!({"action": "observe"}))).await.ok();
    assert_eq!(receipt["outcome"], "observed");
    assert_eq!(sidecar.api.events("event_type=would_kill").await.len(), 1);
    assert_eq!(sidecar.api.agent("a").await["active"], true);
    assert_eq!(sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok()["outcome"], "applied");
}

#[tokio::test]
async fn the_actor_and_the_reason_of_a_change_are_recorded() {
    let sidecar = Sidecar::guarding("a").await;
    let note = json!({"reason": "spends too much", "by": "Ada"});
    sidecar.api.post("/v1/agents/a/deactivate", note).await.ok();
    sidecar.api.post("/v1/agents/a/activate", json!({"reason": "budget raised"})).await.ok();
    sidecar.api.patch("/v1/agents/a", json!({"kill_switch_threshold": 12})).await.ok();
    let events = sidecar.api.events("agent_id=a").await;
    let recorded: Vec<_> = events.iter().map(|e| (e["event_type"].clone(), e["reason"].clone())).collect();
    assert_eq!(
        recorded,
        [("policy_changed", ""), ("activated", "budget raised"), ("deactivated", "spends too much"), ("created", "")]
            .map(|(event_type, reason)| (json!(event_type), json!(reason)))
    );
    assert!(events.iter().all(|event| event["actor"] == "token:operator"));
    assert_eq!(events[2]["by"], "Ada");
    assert_eq!(events[0]["changes"], json!({"kill_switch_threshold": {"from": 10.0, "to": 12.0}}));
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_overlap_while_events_arrive() {
    let sidecar = Sidecar::start().await;
    for n in 0..25 {
        sidecar.api.put(&format!("/v1/agents/a{n}"), json!({})).await.ok();
    }
    let mut seen = Vec::new();
    let mut path = "/v1/events?limit=10".to_owned();
    loop {
        let page = sidecar.api.get(&path).await.ok();
        seen.extend(page["events"].as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()));
        sidecar.api.put(&format!("/v1/agents/late{}", seen.len()), json!({})).await.ok();
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/events?limit=10&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, (1..=25).rev().collect::<Vec<_>>());
    let newer = sidecar.api.events("after=25&limit=2").await;
    assert_eq!(newer.iter().map(|event| event["id"].clone()).collect::<Vec<_>>(), [26, 27]);
}

#[tokio::test]
async fn filters_by_agent_type_and_time_can_be_combined() {
    let sidecar = Sidecar::start().await;
    for (minute, id) in [(0, "a"), (1, "b"), (2, "a")] {
        sidecar.clock.store(START_MS + minute * 60_000, Ordering::SeqCst);
        sidecar.api.put(&format!("/v1/agents/{id}"), json!({"kill_switch_threshold": 5 + minute})).await.ok();
    }
    for (query, ids) in [
        ("agent_id=a", vec![3, 1]),
        ("event_type=created", vec![2, 1]),
        ("agent_id=a&event_type=policy_changed", vec![3]),
        ("since=2024-01-15T10:31:00Z", vec![3, 2]),
        ("until=2024-01-15T10:31:00Z", vec![1]),
        ("since=2024-01-15&until=2024-01-15T10:32:00Z&agent_id=b", vec![2]),
        ("since=2024-01-16", vec![]),
    ] {
        let found: Vec<_> = sidecar.api.events(query).await.iter().map(|e| e["id"].as_u64().unwrap()).collect();
        assert_eq!(found, ids, "{query}");
    }
}

#[tokio::test]
async fn an_invalid_parameter_is_refused_by_name() {
    let sidecar = Sidecar::start().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("event_type=explosion", "event_type"),
        ("since=yesterday", "since"),
        ("cursor=x", "cursor"),
        ("after=1&cursor=2", "after"),
        ("agent=a", "agent"),
    ] {
        let problem = sidecar.api.get(&format!("/v1/events?{query}")).await.problem(422);
        assert_eq!(problem["field"], field, "{query}");
    }
}

#[tokio::test]
async fn only_loops_and_recoveries_are_put_into_the_outbox() {
    let sidecar = Sidecar::guarding("a").await;
    assert_eq!(sidecar.api.outbox_depth().await, 0);
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    assert_eq!(sidecar.api.outbox_depth().await, 1);
    sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    assert_eq!(sidecar.api.outbox_depth().await, 2);
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.api.report("/v1/kills", kill("k2", "a", 1)).await.ok();
    sidecar.api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    let depth = sidecar.api.outbox_depth().await;
    assert_eq!(depth, 2, "retries, stale reports and deactivations by a person are not announced");
    sidecar.pass(25 * 3600);
    sidecar.service.expire().await.unwrap();
    assert_eq!(sidecar.api.outbox_depth().await, 0, "it has expired");
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 1, "events stay");
}
