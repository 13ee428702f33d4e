//! Bad input is answered with a 4xx that says why, and changes nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, ENFORCER, OPERATOR, Sidecar, kill, kill_with};

/// Returns the agent and the number of events, to be compared before and after.
async fn snapshot(api: &Api) -> (Value, usize) {
    (api.agent("a").await, api.events("limit=1000").await.len())
}

#[tokio::test]
async fn settings_out_of_bounds_are_refused_with_the_field_and_change_nothing() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let before = snapshot(api).await;
    for (field, value, bounds) in [
        ("window_size", json!("abc"), "whole number from 2 to 100"),
        ("window_size", json!(7.5), "whole number from 2 to 100"),
        ("window_size", json!(1), "whole number from 2 to 100"),
        ("window_size", json!(101), "whole number from 2 to 100"),
        ("window_size", json!(-3), "whole number from 2 to 100"),
        ("window_size", json!([]), "whole number from 2 to 100"),
        ("threshold", json!(0), "above 0"),
        ("threshold", json!(-1), "above 0"),
        ("threshold", json!("x"), "above 0"),
        ("threshold", json!("NaN"), "above 0"),
        ("threshold", json!(1e308), "below 83.5"),
        ("threshold", json!(83.5), "the highest score a window of 20 can reach"),
        ("enabled", json!("yes"), "true or false"),
    ] {
        let long = format!("kill_switch_{field}");
        let short_problem = api.patch("/v1/agents/a/kill-switch", json!({field: value})).await.problem(422);
        let problem = api.patch("/v1/agents/a", json!({long.clone(): value})).await.problem(422);
        for problem in [short_problem, problem] {
            assert_eq!(problem["field"], long, "{value}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(bounds), "{field} {value}: {detail}");
        }
    }
    for (field, value, bounds) in [
        ("idle_reset_seconds", json!(86_401), "idle_reset_seconds (86401) must be a whole number from 0 to 86400"),
        ("idle_reset_seconds", json!("2m"), "whole number from 0 to 86400"),
        ("scope", json!("team"), "agent or session"),
        ("session_stop_seconds", json!(0), "whole number from 1 to 604800"),
        ("session_stop_seconds", json!(604_801), "whole number from 1 to 604800"),
        ("escalate_after", json!(65), "whole number from 0 to 64"),
        ("escalate_after", json!(-1), "whole number from 0 to 64"),
        ("answer_loop", json!("stop"), "off, observe or cut"),
        ("tools", json!("wait"), "an object of tools"),
        ("tools", json!({"get_status": 0}), "tools.get_status (0) must be \"ignore\" or a whole number from 2 to 100"),
        ("tools", json!({"get_status": 50}), "tools.get_status (50) must be at most kill_switch_window_size (20)"),
        ("tools", json!({"a\tb": "ignore"}), "must have 1 to 128 characters, and no control characters"),
    ] {
        for path in ["/v1/agents/a", "/v1/agents/a/kill-switch"] {
            let problem = api.patch(path, json!({field: value})).await.problem(422);
            assert_eq!(problem["field"], field, "{value}");
            assert!(problem["detail"].as_str().unwrap().contains(bounds), "{problem}");
        }
    }
    assert_eq!(snapshot(api).await, before);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let before = snapshot(api).await;
    for body in
        ["{", "{\"kill_switch_threshold\": NaN}", "{\"kill_switch_threshold\": 1e999}", "[]", "3", "null", "\u{0}"]
    {
        let send = |method, path, token| {
            let request = api.request(method, path, token).header("content-type", "application/json");
            Api::take(request.body(body.to_owned()))
        };
        send(Method::PATCH, "/v1/agents/a", OPERATOR).await.problem(400);
        let answer = send(Method::POST, "/v1/kills", ENFORCER).await;
        assert!(answer.status.is_client_error(), "{body}");
    }
    assert_eq!(snapshot(api).await, before);
}

#[tokio::test]
async fn only_json_content_types_are_accepted() {
    let sidecar = Sidecar::guarding("a").await;
    let send = |content_type: Option<&str>| {
        let request = sidecar.api.request(Method::PATCH, "/v1/agents/a", OPERATOR);
        let request = content_type.into_iter().fold(request, |request, value| request.header("content-type", value));
        Api::take(request.body("{\"kill_switch_threshold\": 5}"))
    };
    let refused = ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonish", "json"];
    for content_type in refused.map(Some).into_iter().chain([None]) {
        send(content_type).await.problem(415);
    }
    assert_eq!(sidecar.api.agent("a").await["kill_switch_threshold"], 10.0);
    for content_type in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
        assert_eq!(send(Some(content_type)).await.status, 200, "{content_type}");
    }
}

#[tokio::test]
async fn malformed_agent_ids_are_refused_and_never_stored() {
    let sidecar = Sidecar::start().await;
    let ids =
        ["it's".to_owned(), "a\"b".to_owned(), "a\nb".to_owned(), "a b".to_owned(), "ä".to_owned(), "x".repeat(10_240)];
    for id in ids {
        let encoded = percent_encoding::utf8_percent_encode(&id, percent_encoding::NON_ALPHANUMERIC).to_string();
        let problem = sidecar.api.put(&format!("/v1/agents/{encoded}"), json!({})).await.problem(422);
        assert_eq!(problem["field"], "agent_id");
        assert!(problem["detail"].as_str().unwrap().contains("1 to 128 characters"), "{problem}");
        sidecar.api.get(&format!("/v1/agents/{encoded}")).await.problem(422);
        sidecar.api.report("/v1/kills", kill("k", &id, 1)).await.problem(422);
        let seen = sidecar.api.report("/v1/observations", json!({"agents": [{"agent_id": id}]})).await.ok();
        assert_eq!(seen, json!({"accepted": 0, "created": 0, "ignored": 1, "over_limit": 0}));
    }
    // No client sends these in a path, where they mean a folder.
    for id in [".", ".."] {
        sidecar.api.report("/v1/kills", kill("k", id, 1)).await.problem(422);
        let seen = sidecar.api.report("/v1/observations", json!({"agents": [{"agent_id": id}]})).await.ok();
        assert_eq!(seen["ignored"], 1, "{id}");
    }
    sidecar.api.put("/v1/agents/%FF%FE", json!({})).await.problem(422);
    assert_eq!(sidecar.api.get("/v1/agents").await.ok()["agents"], json!([]));
    assert_eq!(sidecar.api.events("").await.len(), 0);
}

#[tokio::test]
async fn unknown_and_read_only_fields_are_refused_with_their_name() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let before = snapshot(api).await;
    for field in ["treshold", "active", "deactivated_by", "generation", "agent_id", "last_seen", "__proto__"] {
        let problem = api.patch("/v1/agents/a", json!({field: 1})).await.problem(422);
        assert_eq!(problem["field"], field);
        assert_eq!(api.put("/v1/agents/a", json!({field: 1})).await.problem(422)["field"], field);
    }
    assert_eq!(api.patch("/v1/agents/a/kill-switch", json!({"name": "x"})).await.problem(422)["field"], "name");
    for (act, body, field) in [
        ("deactivate", json!({"resaon": "x"}), "resaon"),
        ("deactivate", json!({"reason": "x".repeat(1_001)}), "reason"),
        ("activate", json!({"reason": 5}), "reason"),
    ] {
        let problem = api.post(&format!("/v1/agents/a/{act}"), body).await.problem(422);
        assert_eq!(problem["field"], field, "{act}");
    }
    assert_eq!(snapshot(api).await, before);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let huge = format!("{{\"name\": \"{}\"}}", "x".repeat(10 * 1024 * 1024));
    for (method, path, token) in [
        (Method::PATCH, "/v1/agents/a", OPERATOR),
        (Method::POST, "/v1/kills", ENFORCER),
        (Method::POST, "/v1/observations", ENFORCER),
    ] {
        let request = api.request(method, path, token).header("content-type", "application/json").body(huge.clone());
        // The sidecar may answer and close the connection while the body is still being sent.
        match request.send().await {
            Ok(response) => assert_eq!(response.status(), 413, "{path}"),
            Err(error) => assert!(error.is_request() || error.is_body(), "{error:?}"),
        }
    }
    // A body that is only a little too large is sent as a whole, so the answer is always read.
    let request = api.request(Method::PATCH, "/v1/agents/a", OPERATOR).json(&json!({"name": "x".repeat(65_536)}));
    let problem = Api::take(request).await.problem(413);
    assert_eq!(problem["detail"], "the body must not be larger than 64 KiB");
    assert_eq!(api.agent("a").await["name"], "");
}

#[tokio::test]
async fn invalid_reports_are_refused_with_the_reason() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    for (body, says) in [
        (json!({}), "kill_id"),
        (json!({"kill_id": "k"}), "agent_id"),
        (kill_with("k", "a", 1, json!({"action": "explode"})), "explode"),
        (kill_with("k", "a", 1, json!({"generation": -1})), "-1"),
        (kill_with("k", "a", 1, json!({"generation": u64::MAX})), "generation"),
        (kill_with("k", "a", 1, json!({"score": "high"})), "high"),
        (kill("", "a", 1), "kill_id"),
        (kill(&"k".repeat(129), "a", 1), "kill_id"),
        (kill("a b", "a", 1), "kill_id"),
    ] {
        let problem = api.report("/v1/kills", body).await.problem(422);
        assert!(problem["detail"].as_str().unwrap().contains(says), "{says}: {problem}");
    }
    let sample = |score: Value| {
        json!({
            "at_ms": 1, "score": score, "similar_prompts": 0, "similar_responses": 0, "repeated_tool_calls": 0,
        })
    };
    let scored = json!({"agents": [{"agent_id": "a", "scores": [sample(json!(1.5)), sample(json!("high"))]}]});
    let entries = json!({"version": 4, "sender": "s", "agents": [{"agent_id": "a", "generation": -1, "entries": ""}]});
    for (path, body, field) in [
        ("/v1/kills", kill_with("k", "a", 1, json!({"generation": -1})), "generation"),
        ("/v1/kills", kill_with("k", "a", 1, json!({"action": "explode"})), "action"),
        ("/v1/kills", kill_with("k", "a", 1, json!({"tools": ["x", 5]})), "tools[1]"),
        ("/v1/kills", kill_with("k", "a", 1, json!({"matches": [{"calls_ago": "x"}]})), "matches[0].calls_ago"),
        ("/v1/observations", json!({"agents": 3}), "agents"),
        ("/v1/observations", scored, "agents[0].scores[1].score"),
        ("/v1/entries", entries, "agents[0].generation"),
    ] {
        let problem = api.report(path, body).await.problem(422);
        assert_eq!(problem["field"], field);
        assert!(problem["detail"].as_str().unwrap().starts_with(&format!("{field}: ")), "{problem}");
    }
    assert_eq!(api.events("").await.len(), 0);
    api.get("/v1/agents/a").await.problem(404);
}

#[tokio::test]
async fn an_unknown_agent_is_answered_with_404() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    for part in ["", "/kill-switch", "/scores", "/sessions"] {
        let path = &format!("/v1/agents/nobody{part}");
        assert_eq!(api.get(path).await.problem(404)["detail"], "there is no agent nobody", "{path}");
    }
    api.patch("/v1/agents/nobody", json!({})).await.problem(404);
    api.post("/v1/agents/nobody/activate", json!({})).await.problem(404);
    api.post("/v1/agents/nobody/deactivate", json!({})).await.problem(404);
    api.delete("/v1/agents/nobody").await.problem(404);
}

#[tokio::test]
async fn invalid_sync_parameters_are_refused_and_unknown_ones_ignored() {
    let sidecar = Sidecar::start().await;
    assert_eq!(sidecar.api.sync("since=x").await.problem(422)["field"], "since");
    assert_eq!(sidecar.api.sync("wait=-1").await.problem(422)["field"], "wait");
    assert_eq!(sidecar.api.sync("since=0&from_the_future=1").await.status, 200);
}
