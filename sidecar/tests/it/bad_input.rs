//! Whatever is sent, the answer is a 4xx that says why, and nothing changes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, ENFORCER, OPERATOR, Sidecar, kill, kill_with};

/// The agent and its events, before and after.
async fn picture(api: &Api) -> (Value, usize) {
    (api.agent("a").await, api.events("limit=1000").await.len())
}

#[tokio::test]
async fn settings_out_of_bounds_are_refused_by_field_and_change_nothing() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    api.guarded("a").await;
    let before = picture(api).await;
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
    assert_eq!(picture(api).await, before);
}

#[tokio::test]
async fn what_is_not_json_is_refused() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    api.guarded("a").await;
    let before = picture(api).await;
    for body in
        ["{", "{\"kill_switch_threshold\": NaN}", "{\"kill_switch_threshold\": 1e999}", "[]", "3", "null", "\u{0}"]
    {
        let request = api.request(Method::PATCH, "/v1/agents/a", OPERATOR);
        let request = request.header("content-type", "application/json").body(body.to_owned());
        Api::take(request).await.problem(400);
        let request = api.request(Method::POST, "/v1/kills", ENFORCER);
        let request = request.header("content-type", "application/json").body(body.to_owned());
        assert!(Api::take(request).await.status.is_client_error(), "{body}");
    }
    assert_eq!(picture(api).await, before);
}

#[tokio::test]
async fn a_wrong_content_type_is_refused() {
    let sidecar = Sidecar::start().await;
    sidecar.api.guarded("a").await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonish"] {
        let request = sidecar.api.request(Method::PATCH, "/v1/agents/a", OPERATOR);
        let request = request.header("content-type", content_type).body("{\"kill_switch_threshold\": 5}");
        Api::take(request).await.problem(415);
    }
    let bare = sidecar.api.request(Method::PATCH, "/v1/agents/a", OPERATOR).body("{\"kill_switch_threshold\": 5}");
    Api::take(bare).await.problem(415);
    assert_eq!(sidecar.api.agent("a").await["kill_switch_threshold"], 10.0);
}

#[tokio::test]
async fn ids_that_cannot_be_ids_are_refused_and_never_stored() {
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
    sidecar.api.put("/v1/agents/%FF%FE", json!({})).await.problem(422);
    assert_eq!(sidecar.api.get("/v1/agents").await.ok()["agents"], json!([]));
    assert_eq!(sidecar.api.events("").await.len(), 0);
}

#[tokio::test]
async fn unknown_and_read_only_fields_are_refused_by_name() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    api.guarded("a").await;
    let before = picture(api).await;
    for field in ["treshold", "active", "deactivated_by", "generation", "agent_id", "last_seen", "__proto__"] {
        let problem = api.patch("/v1/agents/a", json!({field: 1})).await.problem(422);
        assert_eq!(problem["field"], field);
        assert_eq!(api.put("/v1/agents/a", json!({field: 1})).await.problem(422)["field"], field);
    }
    assert_eq!(api.patch("/v1/agents/a/kill-switch", json!({"name": "x"})).await.problem(422)["field"], "name");
    assert_eq!(api.post("/v1/agents/a/deactivate", json!({"resaon": "x"})).await.problem(422)["field"], "resaon");
    assert_eq!(api.post("/v1/agents/a/activate", json!({"reason": 5})).await.problem(422)["field"], "reason");
    let long = json!({"reason": "x".repeat(1_001)});
    assert_eq!(api.post("/v1/agents/a/deactivate", long).await.problem(422)["field"], "reason");
    assert_eq!(picture(api).await, before);
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_refused_announced_or_not() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    api.guarded("a").await;
    let huge = format!("{{\"name\": \"{}\"}}", "x".repeat(10 * 1024 * 1024));
    for (method, path, token) in [
        (Method::PATCH, "/v1/agents/a", OPERATOR),
        (Method::POST, "/v1/kills", ENFORCER),
        (Method::POST, "/v1/observations", ENFORCER),
    ] {
        let request = api.request(method, path, token).header("content-type", "application/json").body(huge.clone());
        // The refusal may arrive while the body is still being sent, and the connection end with it.
        match request.send().await {
            Ok(response) => assert_eq!(response.status(), 413, "{path}"),
            Err(error) => assert!(error.is_request() || error.is_body(), "{error:?}"),
        }
    }
    // A little too much arrives as a whole, so the answer is sure to be read.
    let request = api.request(Method::PATCH, "/v1/agents/a", OPERATOR).json(&json!({"name": "x".repeat(65_536)}));
    let problem = Api::take(request).await.problem(413);
    assert_eq!(problem["detail"], "the body must not be larger than 64 KiB");
    assert_eq!(api.agent("a").await["name"], "");
}

#[tokio::test]
async fn reports_that_make_no_sense_are_refused_with_the_reason() {
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
    api.report("/v1/observations", json!({"agents": 3})).await.problem(422);
    assert_eq!(api.events("").await.len(), 0);
    api.get("/v1/agents/a").await.problem(404);
}

#[tokio::test]
async fn what_does_not_exist_is_404() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    for path in ["/v1/agents/nobody", "/v1/agents/nobody/kill-switch", "/v1/agents/nobody/scores"] {
        assert_eq!(api.get(path).await.problem(404)["detail"], "there is no agent nobody", "{path}");
    }
    api.patch("/v1/agents/nobody", json!({})).await.problem(404);
    api.post("/v1/agents/nobody/activate", json!({})).await.problem(404);
    api.post("/v1/agents/nobody/deactivate", json!({})).await.problem(404);
    api.delete("/v1/agents/nobody").await.problem(404);
}

#[tokio::test]
async fn sync_parameters_that_make_no_sense_are_refused() {
    let sidecar = Sidecar::start().await;
    assert_eq!(sidecar.api.sync("since=x").await.problem(422)["field"], "since");
    assert_eq!(sidecar.api.sync("wait=-1").await.problem(422)["field"], "wait");
    assert_eq!(sidecar.api.sync("since=0&from_the_future=1").await.status, 200);
}
