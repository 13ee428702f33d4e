//! The OpenAPI document is correct: it describes every route and no other, the scope of each, and their real answers.

use std::collections::BTreeSet;

use kill_switch::api;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{START_MS, Sidecar, key, kill, kill_with, stop};

async fn document(sidecar: &Sidecar) -> Value {
    sidecar.api.get("/openapi.json").await.ok()
}

#[tokio::test]
async fn it_describes_exactly_the_routes_of_the_api_with_their_scopes() {
    let sidecar = Sidecar::start().await;
    let document = document(&sidecar).await;
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let scope = operation["x-scope"].as_str().map(str::to_owned);
            assert_eq!(scope.is_none(), operation["security"] == json!([]), "{method} {path}");
            described.insert((method.to_uppercase(), path.clone(), scope));
        }
    }
    let real = api::routes().into_iter().map(|route| {
        let scope = route.scope.map(|scope| scope.as_str().to_owned());
        (route.method.to_string(), route.path.to_owned(), scope)
    });
    assert_eq!(described, real.collect());
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn every_reference_has_a_target() {
    let sidecar = Sidecar::start().await;
    let document = document(&sidecar).await;
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            references.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| collect(member, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}

#[tokio::test]
async fn requests_and_answers_match_their_schemas() {
    let sidecar = Sidecar::start().await;
    let document = document(&sidecar).await;
    let (agent, rule) = ("/v1/agents/{agent_id}", "/v1/alerts/{rule_id}");
    let resume = "/v1/agents/{agent_id}/sessions/{session_key}/resume";
    let (mut rule_id, mut event_id) = (String::new(), 0);
    let score = json!({
        "at_ms": START_MS, "score": 3.5, "similar_prompts": 2, "similar_responses": 0, "repeated_tool_calls": 1,
    });
    let policies =
        json!({"version": 1, "agents": {"b": {"enabled": true}}, "rules": [{"match": "team/*", "enabled": true}]});
    let entries = json!({"agent_id": "a", "generation": 1, "entries": ""});
    let calls = [
        (Method::PUT, agent, json!({"kill_switch_enabled": true, "name": "A"}), 201),
        (Method::PUT, agent, json!({"kill_switch_enabled": true}), 200),
        (Method::PATCH, agent, json!({"action": "block"}), 200),
        (Method::GET, agent, Value::Null, 200),
        (Method::PATCH, "/v1/agents/{agent_id}/kill-switch", json!({"window_size": 30}), 200),
        (Method::GET, "/v1/agents/{agent_id}/kill-switch", Value::Null, 200),
        (Method::POST, "/v1/kills", kill_with("b", "a", 1, json!({"action": "block"})), 200),
        (Method::POST, "/v1/kills", kill_with("o", "a", 1, json!({"action": "observe", "excerpt": "x"})), 200),
        (Method::POST, "/v1/kills", stop("s1", "a", 1), 200),
        (Method::POST, "/v1/kills", stop("s2", "a", 2), 200),
        (Method::POST, resume, json!({"reason": "fixed", "by": "Ada"}), 200),
        (Method::POST, resume, Value::Null, 404),
        (Method::GET, "/v1/agents/{agent_id}/sessions?limit=5", Value::Null, 200),
        (Method::GET, "/v1/sync?envoy=edge", Value::Null, 200),
        (Method::PATCH, agent, json!({"escalate_after": 3, "scope": "session"}), 200),
        (Method::PATCH, agent, json!({"answer_loop": "cut", "tools": {"wait": "ignore", "status": 20}}), 200),
        (Method::POST, "/v1/kills", stop("s3", "a", 3), 200),
        (Method::GET, agent, Value::Null, 200),
        (Method::POST, "/v1/kills", kill("k", "a", 1), 200),
        (Method::GET, "/v1/kills/{event_id}", Value::Null, 200),
        (Method::POST, "/v1/agents/{agent_id}/activate", json!({"reason": "fixed", "by": "Ada"}), 200),
        (Method::POST, "/v1/kills", kill("stale", "a", 1), 200),
        (Method::POST, "/v1/agents/{agent_id}/deactivate", Value::Null, 200),
        (Method::POST, "/v1/observations", json!({"agents": [{"agent_id": "a", "scores": [score]}]}), 200),
        (Method::POST, "/v1/entries", json!({"sender": "s", "version": 0, "sent_ms": 1, "agents": [entries]}), 200),
        (Method::GET, "/v1/agents/{agent_id}/fleet", Value::Null, 200),
        (Method::GET, "/v1/agents/{agent_id}/scores?limit=5", Value::Null, 200),
        (Method::GET, "/v1/agents?limit=1", Value::Null, 200),
        (Method::GET, "/v1/sync?envoy=edge", Value::Null, 200),
        (Method::GET, "/v1/envoys", Value::Null, 200),
        (Method::PUT, "/v1/pause", json!({"for_seconds": 60, "reason": "a release", "by": "Ada"}), 200),
        (Method::PUT, "/v1/pause", json!({"for_seconds": 0}), 422),
        (Method::POST, "/v1/kills", kill_with("p", "b", 1, json!({"paused": true, "action": "observe"})), 200),
        (Method::POST, "/v1/kills", kill("late", "b", 1), 200),
        (Method::GET, "/v1/pause", Value::Null, 200),
        (Method::DELETE, "/v1/pause", json!({"reason": "done"}), 200),
        (Method::GET, "/v1/pause", Value::Null, 200),
        (Method::PUT, "/v1/policies/{name}?prune=true&by=Ada", policies.clone(), 200),
        (Method::PUT, "/v1/policies/{name}?dry_run=true", json!({"version": 1, "rules": []}), 200),
        (Method::PUT, "/v1/policies/{name}?dry_run=true&prune=true", json!({"version": 1}), 200),
        (Method::PUT, "/v1/policies/{name}", json!({"version": 1, "agents": {"b": {"threshold": 0}}}), 422),
        (Method::GET, "/v1/policies/{name}?unmanaged=true", Value::Null, 200),
        (Method::GET, "/v1/policies", Value::Null, 200),
        (Method::POST, "/v1/tokens", json!({"name": "ci", "scope": "viewer"}), 201),
        (Method::GET, "/v1/tokens", Value::Null, 200),
        (Method::POST, "/v1/alerts", json!({"channel": "webhook", "target": "http://127.0.0.1:9", "name": "x"}), 201),
        (Method::POST, "/v1/alerts", json!({"channel": "webhook", "target": "ftp://127.0.0.1:9/"}), 422),
        (Method::GET, "/v1/alerts", Value::Null, 200),
        (Method::GET, rule, Value::Null, 200),
        (Method::PATCH, rule, json!({"agent_id": "a", "cooldown_seconds": 5}), 200),
        (Method::POST, "/v1/alerts/{rule_id}/test", Value::Null, 200),
        (Method::GET, "/v1/alerts/history?status=given_up", Value::Null, 200),
        (Method::DELETE, rule, Value::Null, 204),
        (Method::GET, rule, Value::Null, 404),
        (Method::DELETE, agent, Value::Null, 204),
        (Method::GET, "/v1/events", Value::Null, 200),
        (Method::GET, agent, Value::Null, 404),
        (Method::PATCH, agent, json!({"kill_switch_threshold": 0}), 404),
        (Method::PUT, agent, json!({"kill_switch_threshold": 0}), 422),
    ];
    for (method, target, body, status) in calls {
        let path = target.split('?').next().unwrap();
        let case = format!("{method} {path} {status}");
        let operation = &document["paths"][path][method.as_str().to_lowercase()];
        let token = if operation["x-scope"] == "enforcer" { &sidecar.api.enforcer } else { &sidecar.api.operator };
        let url = target
            .replace("{agent_id}", "a")
            .replace("{rule_id}", &rule_id)
            .replace("{session_key}", &key(1))
            .replace("{event_id}", &event_id.to_string())
            .replace("{name}", "team");
        let mut request = sidecar.api.request(method, &url, token);
        if !body.is_null() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            check(&document, schema, &body, &case, Bounds::Ignored);
            request = request.json(&body);
        }
        let answer = crate::support::Api::take(request).await;
        assert_eq!(answer.status.as_u16(), status, "{case}: {}", answer.text);
        if path == "/v1/kills" {
            event_id = answer.json()["event_id"].as_u64().unwrap();
        }
        if answer.status == 201 && path == "/v1/alerts" {
            rule_id = answer.json()["rule_id"].as_str().unwrap().to_owned();
        }
        let responses = &operation["responses"];
        let described = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let described = resolve(&document, described);
        let Some(content) = described.get("content") else {
            assert!(answer.text.is_empty(), "{case}");
            continue;
        };
        let media = answer.headers["content-type"].to_str().unwrap();
        check(&document, &content[media]["schema"], &answer.json(), &case, Bounds::Checked);
    }
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// Whether a value must be within the bounds of its schema. Some requests are out of bounds on purpose.
#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    Checked,
    Ignored,
}

/// Checks a value against a schema. It knows as much of JSON Schema as the document uses.
fn check(document: &Value, schema: &Value, value: &Value, place: &str, bounds: Bounds) {
    let schema = resolve(document, schema);
    assert!(schema.is_object(), "{place}: the document has no schema for it");
    if let Some(types) = schema.get("type") {
        let types = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        assert!(
            types.iter().any(|name| is_of_type(value, name.as_str().unwrap())),
            "{place}: {value} is not {types:?}"
        );
    }
    if let Some(words) = schema.get("enum") {
        assert!(words.as_array().unwrap().contains(value), "{place}: {value} is not one of {words}");
    }
    if bounds == Bounds::Checked
        && let (Some(number), Some(most)) = (value.as_f64(), schema.get("maximum").and_then(Value::as_f64))
    {
        assert!(number <= most, "{place}: {number}");
    }
    if let Some(items) = schema.get("items") {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            check(document, items, item, &format!("{place}[{index}]"), bounds);
        }
    }
    let Some(members) = value.as_object() else { return };
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(members.contains_key(required.as_str().unwrap()), "{place}: {required} is missing");
    }
    for (name, member) in members {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(may)) => assert!(*may, "{place} is not described"),
            (Value::Null, Value::Null) => {}
            (Value::Null, additional) => check(document, additional, member, &place, bounds),
            (property, _) => check(document, property, member, &place, bounds),
        }
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the document uses a type that this test does not know: {other}"),
    }
}
