//! Two people change one agent: the change of the second one, who has not seen the first change, is refused.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Api, OPERATOR, Sidecar, kill};

async fn conditional(api: &Api, method: Method, path: &str, header: (&str, &str)) -> Answer {
    let body = json!({"kill_switch_threshold": 7});
    let body = if method == Method::POST { json!({}) } else { body };
    Api::take(api.request(method, path, OPERATOR).header(header.0, header.1).json(&body)).await
}

#[tokio::test]
async fn a_change_of_an_old_revision_is_refused_with_412() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let seen = api.get("/v1/agents/a").await.etag();
    api.patch("/v1/agents/a", json!({"kill_switch_window_size": 40})).await.ok();
    for (method, path) in [
        (Method::PUT, "/v1/agents/a"),
        (Method::PATCH, "/v1/agents/a"),
        (Method::PATCH, "/v1/agents/a/kill-switch"),
        (Method::POST, "/v1/agents/a/deactivate"),
        (Method::POST, "/v1/agents/a/activate"),
        (Method::DELETE, "/v1/agents/a"),
    ] {
        conditional(api, method, path, ("if-match", &seen)).await.problem(412);
    }
    let agent = api.agent("a").await;
    assert_eq!((&agent["kill_switch_window_size"], &agent["active"]), (&json!(40), &json!(true)));
}

#[tokio::test]
async fn a_kill_makes_a_revision_old_and_an_observation_does_not() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let seen = api.get("/v1/agents/a").await.etag();
    api.report("/v1/observations", json!({"agents": [{"agent_id": "a"}]})).await.ok();
    sidecar.service.write_observations().await.unwrap();
    let changed = conditional(api, Method::PATCH, "/v1/agents/a", ("if-match", &seen)).await;
    let next = changed.etag();
    assert_ne!(next, seen);
    assert_eq!(changed.ok()["kill_switch_threshold"], 7.0);
    api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    conditional(api, Method::PATCH, "/v1/agents/a", ("if-match", &next)).await.problem(412);
}

#[tokio::test]
async fn an_agent_can_be_created_on_condition_that_it_does_not_exist() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    assert_eq!(conditional(api, Method::PUT, "/v1/agents/a", ("if-none-match", "*")).await.status, 201);
    conditional(api, Method::PUT, "/v1/agents/a", ("if-none-match", "*")).await.problem(412);
    conditional(api, Method::PUT, "/v1/agents/b", ("if-match", "*")).await.problem(412);
    conditional(api, Method::PATCH, "/v1/agents/a", ("if-match", "\"nonsense\"")).await.problem(412);
}

#[tokio::test]
async fn reading_a_known_revision_is_answered_with_304() {
    let sidecar = Sidecar::guarding("a").await;
    let etag = sidecar.api.get("/v1/agents/a").await.etag();
    let request = sidecar.api.request(Method::GET, "/v1/agents/a", OPERATOR).header("if-none-match", &etag);
    assert_eq!(Api::take(request).await.status, 304);
}
