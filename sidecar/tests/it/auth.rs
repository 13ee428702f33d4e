//! Every route except the two health checks needs a token, and a token can only do what its scope allows.

use kill_switch::api;
use kill_switch::model::Scope;
use reqwest::Method;
use serde_json::json;

use crate::support::{Api, ENFORCER, OPERATOR, Sidecar, VIEWER};

/// Returns the path with its parameters filled in.
fn concrete(path: &str) -> String {
    let parameters = [("{agent_id}", "a"), ("{session_key}", "none"), ("{token_id}", "none"), ("{rule_id}", "none")];
    parameters.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}

#[tokio::test]
async fn every_route_needs_exactly_the_scope_in_the_list_of_routes() {
    let sidecar = Sidecar::guarding("a").await;
    for route in api::routes() {
        let path = concrete(route.path);
        for (scope, token) in [(Scope::Enforcer, ENFORCER), (Scope::Viewer, VIEWER), (Scope::Operator, OPERATOR)] {
            // The body is refused, so that nothing is changed by tokens that are allowed to.
            let request = sidecar.api.request(route.method.clone(), &path, token).json(&json!([]));
            let status = Api::take(request).await.status.as_u16();
            let is_granted = route.scope.is_none_or(|needed| scope.grants(needed));
            let case = format!("{} {path} as {scope:?}: {status}", route.method);
            assert_eq!(status == 403, !is_granted, "{case}");
            assert_ne!(status, 401, "{case}");
            assert_ne!(status, 405, "{case}");
        }
    }
}

#[tokio::test]
async fn without_a_token_only_the_health_checks_answer() {
    for route in api::routes() {
        // A new sidecar for each route, because failed authentications are limited.
        let sidecar = Sidecar::start().await;
        let url = format!("{}{}", sidecar.api.base, concrete(route.path));
        let answer = Api::take(sidecar.api.http.request(route.method.clone(), url)).await;
        match route.scope {
            None => assert_eq!(answer.status, 200, "{}", route.path),
            Some(_) => drop(answer.problem(401)),
        }
    }
}

#[tokio::test]
async fn without_a_token_a_path_that_does_not_exist_looks_like_any_other() {
    let sidecar = Sidecar::start().await;
    let url = |path: &str| format!("{}{path}", sidecar.api.base);
    let unknown = Api::take(sidecar.api.http.get(url("/v1/nothing"))).await;
    assert_eq!(unknown.headers["www-authenticate"], "Bearer");
    unknown.problem(401);
    Api::take(sidecar.api.http.put(url("/v1/agents"))).await.problem(401);
    sidecar.api.get("/v1/nothing").await.problem(404);
    sidecar.api.put("/v1/agents", json!({})).await.problem(405);
}

#[tokio::test]
async fn every_answer_carries_the_marker_header() {
    let sidecar = Sidecar::start().await;
    for path in ["/healthz", "/readyz", "/v1/agents", "/v1/nothing", "/v1/agents/missing", "/metrics"] {
        assert_eq!(sidecar.api.get(path).await.headers["x-kill-switch"], env!("CARGO_PKG_VERSION"), "{path}");
    }
    let anonymous = Api::take(sidecar.api.http.get(format!("{}/v1/agents", sidecar.api.base))).await;
    assert!(anonymous.headers.contains_key("x-kill-switch"));
    assert!(sidecar.api.sync("since=0").await.headers.contains_key("x-kill-switch"));
}

#[tokio::test]
async fn a_token_created_by_the_api_works_until_it_is_revoked() {
    let sidecar = Sidecar::start().await;
    let made = sidecar.api.post("/v1/tokens", json!({"name": "ci", "scope": "viewer"})).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(Api::take(sidecar.api.request(Method::GET, "/v1/agents", secret)).await.status, 200);
    let listed = sidecar.api.get("/v1/tokens").await;
    assert!(!listed.text.contains(secret), "a secret is shown only once");
    assert_eq!(listed.json()["tokens"][0]["name"], "ci");
    let path = format!("/v1/tokens/{}", made["token_id"].as_str().unwrap());
    assert_eq!(sidecar.api.delete(&path).await.status, 204);
    Api::take(sidecar.api.request(Method::GET, "/v1/agents", secret)).await.problem(401);
    sidecar.api.delete(&path).await.problem(404);
}

#[tokio::test]
async fn the_database_contains_no_secret() {
    let sidecar = Sidecar::start().await;
    let made = sidecar.api.post("/v1/tokens", json!({"name": "ci", "scope": "operator"})).await.ok();
    let secret = made["secret"].as_str().unwrap();
    let random = secret.strip_prefix("aks_").unwrap();
    assert_eq!(random.len(), 64, "256 bits");
    for entry in std::fs::read_dir(sidecar.dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(random.len()).any(|window| window == random.as_bytes()));
    }
}

#[tokio::test]
async fn a_token_request_is_refused_with_the_name_of_the_wrong_field() {
    let sidecar = Sidecar::start().await;
    for (body, field) in [
        (json!({"name": "x"}), "scope"),
        (json!({"name": "x", "scope": "root"}), "scope"),
        (json!({"scope": "viewer"}), "name"),
        (json!({"name": "a\nb", "scope": "viewer"}), "name"),
        (json!({"name": "x", "scope": "viewer", "secret": "mine"}), "secret"),
    ] {
        let problem = sidecar.api.post("/v1/tokens", body.clone()).await.problem(422);
        assert_eq!(problem["field"], field, "{body}");
    }
}

#[tokio::test]
async fn failed_authentications_are_limited_and_a_valid_token_is_always_accepted() {
    let sidecar = Sidecar::start().await;
    let mut statuses = Vec::new();
    for _ in 0..12 {
        let answer = Api::take(sidecar.api.request(Method::GET, "/v1/agents", "a-wrong-token")).await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"));
        }
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    assert_eq!(sidecar.api.get("/v1/agents").await.status, 200);
}

#[tokio::test]
async fn a_fixed_token_that_is_too_short_is_refused() {
    let sidecar = Sidecar::start().await;
    assert!(sidecar.service.fix_token("KILL_SWITCH_OPERATOR_TOKEN", Scope::Operator, "short").is_err());
}
