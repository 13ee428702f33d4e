//! Requirements: Kill Switch Enforcement in both forms, and Deactivation Reason Tracking.
//!
//! `action: deactivate` is the current specification, and `action: block` its predecessor.

use agent_kill_switch::wire::{Action, DeactivatedBy, KillReport, Scope};
use serde_json::{Value, json};

use lab::Answer;

use crate::proxy::{Proxy, error};

fn enabled(action: &str) -> Value {
    json!({"kill_switch_enabled": true, "action": action, "retry_after_seconds": 30})
}

#[test]
fn deactivate_on_threshold_exceeded() {
    // WHEN loop detection score exceeds configured threshold
    let mut proxy = Proxy::new(enabled("deactivate"));
    assert_eq!(proxy.refused_at(10), Some(6));
    assert!(proxy.agent.last().value() > proxy.record.threshold);
    // THEN proxy SHALL set agent's `active` to `0`
    assert!(!proxy.record.active);
    // AND proxy SHALL set agent's `deactivated_by` to 'kill_switch'
    assert_eq!(proxy.record.deactivated_by, Some(DeactivatedBy::KillSwitch));
    assert_eq!(serde_json::to_value(proxy.record.deactivated_by).unwrap(), "kill_switch");
}

#[test]
fn use_standard_inactive_response() {
    // WHEN agent has been deactivated by kill switch
    let mut proxy = Proxy::new(enabled("deactivate"));
    proxy.refused_at(6);
    for question in ["Where is my order?", "Something else entirely."] {
        // THEN subsequent requests SHALL receive standard inactive agent response (not 429)
        let reply = proxy.call(&crate::ask(question), &Answer::text("never sent")).unwrap();
        assert_eq!(reply.status, 403);
        assert_eq!(error(&reply)["code"], "agent_inactive");
    }
    // An agent that a person deactivated gets the same response, with another reason.
    let mut by_hand = Proxy::new(json!({"active": false, "deactivated_by": "manual"}));
    let reply = by_hand.repeat().unwrap();
    assert_eq!((reply.status, &error(&reply)["code"]), (403, &json!("agent_inactive")));
}

fn report(proxy: &Proxy, action: Action) -> Value {
    let score = proxy.agent.last();
    let report = KillReport {
        paused: false,
        scope: Scope::Agent,
        session: None,
        kill_id: "k1".into(),
        agent_id: "bot".into(),
        generation: proxy.record.generation,
        action,
        envoy: "envoy-1".into(),
        at_ms: proxy.now_ms,
        score: score.value(),
        threshold: proxy.record.threshold,
        window_size: proxy.record.window_size,
        counting: proxy.record.counting,
        signals: score.signals,
        reason: String::new(),
        tools: Vec::new(),
        matches: proxy.agent.scorer.matches(proxy.agent.window()),
        loop_calls: 0,
        loop_usage: None,
        excerpt: None,
        repetition: None,
        waited_ms: None,
    };
    serde_json::to_value(report).unwrap()
}

/// Checks the details of which the sidecar makes the event. The event itself is covered by the sidecar's tests.
fn assert_details(report: &Value) {
    assert_eq!((&report["score"], &report["threshold"]), (&json!(13.0), &json!(10.0)));
    assert_eq!((&report["window_size"], &report["agent_id"]), (&json!(20), &json!("bot")));
    let signals = ["similar_prompts", "similar_responses", "repeated_tool_calls"].map(|name| report[name].clone());
    assert_eq!(signals, [json!(5), json!(4), json!(0)]);
    let ago: Vec<&Value> = report["matches"].as_array().unwrap().iter().map(|call| &call["calls_ago"]).collect();
    assert_eq!(ago, [1, 2, 3, 4, 5], "the calls that it repeats, the latest first");
}

#[test]
fn record_kill_switch_event() {
    // WHEN agent is deactivated by kill switch
    let mut proxy = Proxy::new(enabled("deactivate"));
    proxy.refused_at(6);
    // THEN event SHALL be recorded with `event_type: "kill_switch"` and deactivation details
    let report = report(&proxy, proxy.record.action);
    assert_eq!(report["action"], "deactivate");
    assert_details(&report);
}

#[test]
fn block_on_threshold_exceeded() {
    // WHEN loop detection score exceeds configured threshold
    let mut proxy = Proxy::new(enabled("block"));
    for _ in 0..5 {
        assert_eq!(proxy.repeat(), None);
    }
    let reply = proxy.repeat().unwrap();
    assert!(proxy.agent.last().value() > proxy.record.threshold);
    // THEN proxy SHALL return 429 status with `block_reason: "loop_detected"`
    assert_eq!(reply.status, 429);
    assert_eq!(error(&reply)["block_reason"], "loop_detected");
    assert!(proxy.record.active, "a blocked agent is not deactivated");
}

#[test]
fn include_retry_information() {
    // WHEN request is blocked due to loop detection
    let mut proxy = Proxy::new(enabled("block"));
    proxy.refused_at(5);
    let start = proxy.now_ms;
    for (later_ms, seconds) in [(0, 30), (10_000, 20), (29_001, 1)] {
        proxy.now_ms = start + later_ms;
        let reply = proxy.repeat().unwrap();
        // THEN response SHALL include `retry_after_seconds` field
        assert_eq!(error(&reply)["retry_after_seconds"], seconds, "{later_ms} ms later");
        assert!(reply.headers.contains(&("retry-after", seconds.to_string())));
    }
    // After that time the agent is served again, with a fresh window.
    proxy.now_ms = start + 30_000;
    assert_eq!(proxy.refused_at(10), Some(6));
}

#[test]
fn record_blocked_event() {
    // WHEN request is blocked
    let mut proxy = Proxy::new(enabled("block"));
    let reply = (0..6).find_map(|_| proxy.repeat()).unwrap();
    // THEN event SHALL be recorded with `blocked: true` and `block_reason: "loop_detected"`
    assert_eq!((&error(&reply)["blocked"], &error(&reply)["block_reason"]), (&json!(true), &json!("loop_detected")));
    let report = report(&proxy, proxy.record.action);
    assert_eq!(report["action"], "block");
    assert_details(&report);
}

#[test]
fn observing_refuses_nothing_but_scores() {
    let mut proxy = Proxy::new(enabled("observe"));
    assert_eq!(proxy.refused_at(30), None);
    assert!(proxy.agent.last().value() > proxy.record.threshold);
}

#[test]
fn store_deactivation_reason() {
    // WHEN agent is deactivated
    let by_hand = Proxy::new(json!({"active": false, "deactivated_by": "manual"}));
    let mut by_kill_switch = Proxy::new(enabled("deactivate"));
    by_kill_switch.refused_at(6);
    // THEN `deactivated_by` field SHALL be set to 'kill_switch' or 'manual'
    for (proxy, by) in [(by_hand, "manual"), (by_kill_switch, "kill_switch")] {
        assert_eq!(serde_json::to_value(proxy.record.deactivated_by).unwrap(), by);
        let mut proxy = proxy;
        assert_eq!(error(&proxy.repeat().unwrap())["deactivated_by"], by, "and the client is told");
    }
}

#[test]
fn clear_deactivation_reason_on_activate() {
    let mut proxy = Proxy::new(enabled("deactivate"));
    proxy.refused_at(6);
    // WHEN agent is activated
    proxy.sync(json!({"kill_switch_enabled": true, "generation": 1}));
    // THEN `deactivated_by` field SHALL be set to `null`
    assert!(proxy.record.active);
    assert_eq!(serde_json::to_value(proxy.record.deactivated_by).unwrap(), Value::Null);
}
