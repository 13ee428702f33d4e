//! Specification, "Kill Switch Configuration": per agent, off by default, bounded.

use serde_json::json;

use crate::support::{Sidecar, assert_members};

#[tokio::test]
async fn defaults_are_off_window_20_threshold_10() {
    let sidecar = Sidecar::start().await;
    let agent = sidecar.api.put("/v1/agents/a", json!({})).await;
    assert_eq!(agent.status, 201);
    assert_eq!(
        agent.json(),
        json!({
            "agent_id": "a", "name": "", "active": true, "deactivated_by": null, "generation": 1,
            "kill_switch_enabled": false, "kill_switch_window_size": 20, "kill_switch_threshold": 10.0,
            "action": "deactivate", "counting": "progress", "retry_after_seconds": 60, "idle_reset_seconds": 120,
            "scope": "agent", "session_stop_seconds": 3600, "escalate_after": 5, "answer_loop": "observe", "tools": {},
            "first_seen": null, "last_seen": null, "managed_by": null, "managed_rule": null,
        })
    );
}

#[tokio::test]
async fn enabling_and_disabling_reaches_the_filter() {
    let sidecar = Sidecar::start().await;
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    for enabled in [true, false] {
        sidecar.api.patch("/v1/agents/a/kill-switch", json!({"enabled": enabled})).await.ok();
        assert_eq!(sidecar.api.agent("a").await["kill_switch_enabled"], enabled);
        let told = sidecar.api.sync("since=0").await.ok();
        assert_eq!(told["agents"][0]["kill_switch_enabled"], enabled);
    }
}

#[tokio::test]
async fn window_size_and_threshold_reach_the_filter() {
    let sidecar = Sidecar::start().await;
    sidecar.api.put("/v1/agents/a", json!({})).await.ok();
    let body = json!({"window_size": 50, "threshold": 25.5});
    let kill_switch = sidecar.api.patch("/v1/agents/a/kill-switch", body).await.ok();
    let set = json!({"kill_switch_window_size": 50, "kill_switch_threshold": 25.5});
    assert_members(&kill_switch, set.clone());
    assert_eq!(kill_switch["highest_score"], 49.0 + 96.0 + 73.5);
    assert_members(&sidecar.api.sync("since=0").await.ok()["agents"][0], set);
}

#[tokio::test]
async fn the_scope_and_its_settings_reach_the_filter_and_are_recorded() {
    let sidecar = Sidecar::guarding("a").await;
    let set = json!({"idle_reset_seconds": 30, "scope": "session", "session_stop_seconds": 600, "escalate_after": 3});
    let kill_switch = sidecar.api.patch("/v1/agents/a/kill-switch", set.clone()).await.ok();
    assert_members(&kill_switch, set.clone());
    assert_members(&sidecar.api.get("/v1/agents/a/kill-switch").await.ok(), set.clone());
    assert_members(&sidecar.api.sync("since=0").await.ok()["agents"][0], set);
    let changes = json!({
        "idle_reset_seconds": {"from": 120, "to": 30}, "scope": {"from": "agent", "to": "session"},
        "session_stop_seconds": {"from": 3600, "to": 600}, "escalate_after": {"from": 5, "to": 3},
    });
    assert_eq!(sidecar.api.events("event_type=policy_changed").await[0]["changes"], changes);
}

#[tokio::test]
async fn the_rules_of_tools_reach_the_filter_and_are_replaced_as_a_whole() {
    let sidecar = Sidecar::guarding("a").await;
    let tools = json!({"get_status": 20, "wait_for_job": "ignore"});
    let set = json!({"tools": tools, "answer_loop": "off"});
    let kill_switch = sidecar.api.patch("/v1/agents/a/kill-switch", set.clone()).await.ok();
    assert_members(&kill_switch, set.clone());
    assert_members(&sidecar.api.sync("since=0").await.ok()["agents"][0], set);
    let changes = json!({
        "tools": {"from": {}, "to": tools}, "answer_loop": {"from": "observe", "to": "off"},
    });
    assert_eq!(sidecar.api.events("event_type=policy_changed").await[0]["changes"], changes);
    for replaced in [json!({"sleep": "ignore"}), json!({})] {
        let patched = sidecar.api.patch("/v1/agents/a", json!({"tools": replaced})).await.ok();
        assert_members(&patched, json!({"tools": replaced, "answer_loop": "off"}));
    }
    sidecar.api.patch("/v1/agents/a", json!({"tools": {"get_status": 20}})).await.ok();
    let refused = sidecar.api.patch("/v1/agents/a", json!({"kill_switch_window_size": 8})).await.problem(422);
    assert_eq!(refused["field"], "tools");
}

#[tokio::test]
async fn a_partial_change_keeps_the_rest_and_a_put_replaces_it() {
    let sidecar = Sidecar::start().await;
    let all = json!({
        "name": "Support", "kill_switch_enabled": true, "kill_switch_window_size": 30, "kill_switch_threshold": 15,
        "action": "block", "counting": "literal", "retry_after_seconds": 90, "idle_reset_seconds": 0,
        "scope": "session", "session_stop_seconds": 60, "escalate_after": 0, "answer_loop": "cut",
        "tools": {"get_status": 20, "wait_for_job": "ignore"},
    });
    assert_members(&sidecar.api.put("/v1/agents/a", all.clone()).await.ok(), json!({"idle_reset_seconds": 0}));
    let patched = sidecar.api.patch("/v1/agents/a", json!({"kill_switch_threshold": 16})).await.ok();
    let mut expected = all;
    expected["kill_switch_threshold"] = json!(16.0);
    assert_members(&patched, expected);
    let put = sidecar.api.put("/v1/agents/a", json!({"name": "Support"})).await;
    assert_eq!(put.status, 200);
    let defaults = json!({
        "kill_switch_enabled": false, "action": "deactivate", "retry_after_seconds": 60, "idle_reset_seconds": 120,
        "scope": "agent", "session_stop_seconds": 3600, "escalate_after": 5, "answer_loop": "observe", "tools": {},
    });
    assert_members(&put.json(), defaults);
}

#[tokio::test]
async fn a_policy_can_be_set_before_the_first_request_and_survives_it() {
    let sidecar = Sidecar::guarding("a").await;
    let seen = json!({"envoy": "edge", "agents": [{"agent_id": "a", "requests": 1}]});
    sidecar.api.report("/v1/observations", seen).await.ok();
    sidecar.service.write_observations().await.unwrap();
    let expected = json!({"kill_switch_enabled": true, "first_seen": "2024-01-15T10:30:00.000Z"});
    assert_members(&sidecar.api.agent("a").await, expected);
}

#[tokio::test]
async fn repeating_a_change_changes_nothing() {
    let sidecar = Sidecar::start().await;
    let body = json!({"kill_switch_enabled": true, "kill_switch_window_size": 10, "kill_switch_threshold": 5});
    let first = sidecar.api.put("/v1/agents/a", body.clone()).await;
    let again = sidecar.api.put("/v1/agents/a", body.clone()).await;
    let patched = sidecar.api.patch("/v1/agents/a", body).await;
    assert_eq!((first.etag(), first.etag()), (again.etag(), patched.etag()));
    assert_eq!(sidecar.api.events("agent_id=a").await.len(), 1, "one event for one change");
}

#[tokio::test]
async fn settings_and_state_do_not_affect_each_other() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    let put = sidecar.api.put("/v1/agents/a", json!({"kill_switch_threshold": 12})).await.ok();
    assert_members(&put, json!({"active": false, "deactivated_by": "manual"}));
    let activated = sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    assert_eq!(activated["kill_switch_threshold"], 12.0);
}

#[tokio::test]
async fn ids_with_slashes_colons_and_at_signs_are_percent_encoded_in_paths() {
    let sidecar = Sidecar::start().await;
    for (path, id) in [("team%2Fa", "team/a"), ("bot:7@example.com", "bot:7@example.com"), ("a%3Ab%40c", "a:b@c")] {
        sidecar.api.guarded(path).await;
        assert_eq!(sidecar.api.agent(path).await["agent_id"], id);
        let patched = sidecar.api.patch(&format!("/v1/agents/{path}/kill-switch"), json!({"window_size": 9})).await;
        assert_eq!(patched.ok()["kill_switch_window_size"], 9, "{id}");
        sidecar.api.post(&format!("/v1/agents/{path}/deactivate"), json!({})).await.ok();
        assert_eq!(sidecar.api.agent(path).await["active"], false, "{id}");
    }
}
