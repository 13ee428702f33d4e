//! The services that people already use get what they ask for: each receiver here checks the format that its service
//! publishes, and answers as the service does.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use kill_switch::alerts::{AlertOptions, Guard, SystemLookup};
use serde_json::{Value, json};

use crate::support::process::{Process, cli};
use crate::support::receiver::Receiver;
use crate::support::{Sidecar, assert_members, kill, kill_with, stop};

const KEY: &str = "0123456789abcdef0123456789abcdef";
/// What a client could send as a reason, to deceive a reader.
const HOSTILE: &str = "<!channel> [click](https://evil.example) *now*\nScore: 0";

/// A service that refuses what does not have its format.
#[derive(Clone)]
struct Service {
    base: String,
    accepted: Arc<Mutex<Vec<Value>>>,
    check: fn(&Value) -> Result<(), String>,
    status: u16,
}

impl Service {
    async fn start(check: fn(&Value) -> Result<(), String>, status: u16) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let service = Self { base, accepted: Arc::default(), check, status };
        let app = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        service
    }

    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.accepted.lock().unwrap())
    }
}

async fn answer(State(service): State<Service>, uri: Uri, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let refused = |why: String| (StatusCode::BAD_REQUEST, why);
    if headers.get("content-type").is_none_or(|value| value != "application/json") {
        return refused("the body must be JSON".to_owned());
    }
    if uri.query().is_some_and(|query| query.contains("routing_key")) {
        return refused("the key belongs into the body".to_owned());
    }
    let Ok(body) = serde_json::from_slice(&body) else { return refused("not JSON".to_owned()) };
    if let Err(why) = (service.check)(&body) {
        eprintln!("{why}: {body:#}");
        return refused(why);
    }
    service.accepted.lock().unwrap().push(body);
    (StatusCode::from_u16(service.status).unwrap(), String::new())
}

fn text<'a>(value: &'a Value, member: &str, max_chars: usize) -> Result<&'a str, String> {
    let text = value[member].as_str().ok_or_else(|| format!("{member} must be a text"))?;
    let count = text.chars().count();
    if (1..=max_chars).contains(&count) { Ok(text) } else { Err(format!("{member} has {count} characters")) }
}

fn only(value: &Value, known: &[&str]) -> Result<(), String> {
    let members = value.as_object().ok_or("must be an object")?;
    match members.keys().find(|member| !known.contains(&member.as_str())) {
        Some(unknown) => Err(format!("{unknown} is not a member")),
        None => Ok(()),
    }
}

/// PagerDuty's Events API v2: https://developer.pagerduty.com/docs/events-api-v2/trigger-events/
fn pagerduty(event: &Value) -> Result<(), String> {
    only(event, &["routing_key", "event_action", "dedup_key", "client", "client_url", "links", "images", "payload"])?;
    if text(event, "routing_key", 32)?.len() != 32 {
        return Err("routing_key must have 32 characters".to_owned());
    }
    text(event, "dedup_key", 255)?;
    match event["event_action"].as_str() {
        Some("resolve" | "acknowledge") => return Ok(()),
        Some("trigger") => {}
        other => return Err(format!("event_action {other:?}")),
    }
    let payload = &event["payload"];
    only(payload, &["summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details"])?;
    text(payload, "summary", 1_024)?;
    text(payload, "source", 255)?;
    humantime::parse_rfc3339(text(payload, "timestamp", 40)?).map_err(|error| error.to_string())?;
    match payload["severity"].as_str() {
        Some("critical" | "error" | "warning" | "info") => {}
        other => return Err(format!("severity {other:?}")),
    }
    for link in event["links"].as_array().into_iter().flatten() {
        url::Url::parse(text(link, "href", 2_000)?).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Adaptive Cards for the Workflows app: https://adaptivecards.io/explorer/, of which this checks the elements in use.
fn teams(message: &Value) -> Result<(), String> {
    only(message, &["type", "attachments", "summary"])?;
    if message["type"] != "message" || message["attachments"].as_array().map(Vec::len) != Some(1) {
        return Err("a message has one attachment".to_owned());
    }
    let attachment = &message["attachments"][0];
    if attachment["contentType"] != "application/vnd.microsoft.card.adaptive" || !attachment["contentUrl"].is_null() {
        return Err("the attachment must be an Adaptive Card".to_owned());
    }
    let card = &attachment["content"];
    only(card, &["$schema", "type", "version", "fallbackText", "body", "actions"])?;
    if card["type"] != "AdaptiveCard" || card["version"] != "1.4" {
        return Err("the card must be of version 1.4".to_owned());
    }
    for element in card["body"].as_array().ok_or("body must be a list")? {
        only(element, &["type", "inlines"])?;
        for run in element["inlines"].as_array().filter(|_| element["type"] == "RichTextBlock").ok_or("inlines")? {
            only(run, &["type", "text", "weight", "size"])?;
            text(run, "text", 5_000)?;
        }
    }
    for action in card["actions"].as_array().into_iter().flatten() {
        url::Url::parse(text(action, "url", 2_000)?).map_err(|error| error.to_string())?;
    }
    if message.to_string().len() > 28 * 1_024 { Err("larger than 28 KB".to_owned()) } else { Ok(()) }
}

/// Slack's incoming webhooks with blocks: https://docs.slack.dev/reference/block-kit/blocks/
fn slack(message: &Value) -> Result<(), String> {
    only(message, &["text", "blocks"])?;
    text(message, "text", 40_000)?;
    for block in message["blocks"].as_array().ok_or("blocks must be a list")? {
        match block["type"].as_str() {
            Some("header") if block["text"]["type"] == "plain_text" => text(&block["text"], "text", 150)?,
            Some("section") => text(&block["text"], "text", 3_000)?,
            Some("context") => text(&block["elements"][0], "text", 2_000)?,
            other => return Err(format!("block {other:?}")),
        };
    }
    Ok(())
}

async fn alerting(service: &Service, rule: Value) -> (Sidecar, Value) {
    let options = AlertOptions { public_url: Some("https://ks.example/".to_owned()), ..AlertOptions::default() };
    let sidecar = Sidecar::with_alerts(Guard::anywhere(Arc::new(SystemLookup)), options).await;
    let query = if rule["channel"] == "pagerduty" { format!("?routing_key={KEY}") } else { String::new() };
    let mut body = json!({"target": format!("{}/v2/enqueue{query}", service.base)});
    body.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    let rule = sidecar.api.post("/v1/alerts", body).await.ok();
    (sidecar, rule)
}

/// Reports that a model repeated itself within one answer.
async fn answer_loop(sidecar: &Sidecar, agent_id: &str) {
    let repetition = json!({"period": 12, "words": 204});
    let agent = json!({"agent_id": agent_id, "requests": 1, "answer_loops": 1, "repetition": repetition});
    sidecar.api.report("/v1/observations", json!({"envoy": "edge-1", "agents": [agent]})).await.ok();
    sidecar.service.write_observations().await.unwrap();
}

#[tokio::test]
async fn pagerduty_gets_one_incident_per_agent_which_the_activation_resolves() {
    let service = Service::start(pagerduty, 202).await;
    let (sidecar, rule) = alerting(&service, json!({"channel": "pagerduty"})).await;
    assert!(!rule.to_string().contains(KEY), "the key is a secret: {rule}");
    sidecar.api.report("/v1/kills", kill("k1", "team/a", 1)).await.ok();
    sidecar.deliver().await;
    let trigger = service.take().remove(0);
    let expected = json!({"routing_key": KEY, "event_action": "trigger", "dedup_key": "kill-switch/agent/team/a",
                          "client_url": "https://ks.example/kills/1"});
    assert_members(&trigger, expected);
    let payload = json!({"severity": "critical", "source": "team/a", "class": "kill_switch",
                         "summary": "Agent team/a was deactivated by the kill switch",
                         "timestamp": "2024-01-15T10:30:00.000Z"});
    assert_members(&trigger["payload"], payload);
    assert_eq!(trigger["payload"]["custom_details"]["Score"], "13.0 > 10.0 over the last 20 calls");

    sidecar.api.post("/v1/agents/team%2Fa/activate", json!({})).await.ok();
    sidecar.api.report("/v1/kills", kill("k2", "team/a", 2)).await.ok();
    sidecar.deliver().await;
    let actions: Vec<_> = service.take().iter().map(|event| event["event_action"].clone()).collect();
    assert_eq!(actions, ["resolve", "trigger"], "the second kill is no older incident's: no cooldown");

    sidecar.api.report("/v1/kills", stop("s", "b", 7)).await.ok();
    sidecar.api.report("/v1/kills", kill_with("o", "c", 1, json!({"action": "observe"}))).await.ok();
    answer_loop(&sidecar, "d").await;
    sidecar.api.put("/v1/pause", json!({})).await.ok();
    sidecar.api.delete("/v1/pause").await;
    sidecar.deliver().await;
    let found: Vec<_> = service.take();
    let found: Vec<_> = found
        .iter()
        .map(|event| (event["dedup_key"].as_str().unwrap(), event["payload"]["severity"].as_str().unwrap_or("-")))
        .collect();
    let expected = [
        ("kill-switch/session/b/0000000000000007", "warning"),
        ("kill-switch/dry-run/c", "info"),
        ("kill-switch/answer-loop/d", "info"),
        ("kill-switch/fleet", "warning"),
        ("kill-switch/fleet", "-"),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_test_of_pagerduty_leaves_no_incident_behind() {
    let service = Service::start(pagerduty, 202).await;
    let (sidecar, rule) = alerting(&service, json!({"channel": "pagerduty"})).await;
    let path = format!("/v1/alerts/{}/test", rule["rule_id"].as_str().unwrap());
    let tested = sidecar.api.post(&path, json!({})).await.ok();
    assert_members(&tested, json!({"status": "delivered", "last_code": 202, "channel": "pagerduty"}));
    let events = service.take();
    assert_eq!((&events[0]["event_action"], &events[1]["event_action"]), (&json!("trigger"), &json!("resolve")));
    assert_eq!(events[0]["dedup_key"], events[1]["dedup_key"]);
    for wrong in ["short", "https://events.pagerduty.com/v2/enqueue"] {
        let problem = sidecar.api.post("/v1/alerts", json!({"channel": "pagerduty", "target": wrong})).await;
        assert_eq!(problem.problem(422)["field"], "target");
    }
}

#[tokio::test]
async fn teams_gets_an_adaptive_card_in_which_no_text_is_markdown() {
    let service = Service::start(teams, 202).await;
    let (sidecar, rule) = alerting(&service, json!({"channel": "teams"})).await;
    assert!(rule["target"].as_str().unwrap().ends_with("/..."), "the URL is a secret: {rule}");
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, json!({"reason": HOSTILE}))).await.ok();
    sidecar.deliver().await;
    let card = service.take().remove(0)["attachments"][0]["content"].clone();
    assert_eq!(card["body"][0]["inlines"][0]["text"], "Agent a was deactivated by the kill switch");
    assert_eq!(card["actions"][0]["url"], "https://ks.example/kills/1");
    let why = &card["body"][1]["inlines"];
    assert_eq!(why[0]["text"], "Why: ");
    assert_eq!(why[1]["text"], HOSTILE.replace('\n', "\u{FFFD}"), "a text run, in one line");
    let path = format!("/v1/alerts/{}/test", rule["rule_id"].as_str().unwrap());
    assert_eq!(sidecar.api.post(&path, json!({})).await.ok()["status"], "delivered");
    assert_eq!(service.take().len(), 1);
}

#[tokio::test]
async fn slack_gets_blocks_and_a_text_for_services_that_know_no_blocks() {
    let service = Service::start(slack, 200).await;
    let (sidecar, rule) = alerting(&service, json!({"channel": "slack"})).await;
    let long = format!("{HOSTILE} {}", "x".repeat(1_900));
    sidecar.api.report("/v1/kills", kill_with("k", &"a".repeat(128), 1, json!({"reason": long}))).await.ok();
    sidecar.deliver().await;
    let message = service.take().remove(0);
    let blocks = message["blocks"].as_array().unwrap();
    assert!(blocks[0]["text"]["text"].as_str().unwrap().starts_with("Agent aaa"));
    assert_eq!(blocks[1]["text"]["type"], "plain_text");
    assert_eq!(blocks[2]["elements"][0]["text"], "<https://ks.example/kills/1|Open the dashboard>");
    assert!(!message["text"].as_str().unwrap().contains("<!channel>"), "{message}");
    let path = format!("/v1/alerts/{}/test", rule["rule_id"].as_str().unwrap());
    assert_eq!(sidecar.api.post(&path, json!({})).await.ok()["status"], "delivered");
}

#[tokio::test]
async fn a_runtime_is_told_to_stop_by_a_kill_and_by_nothing_else() {
    let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
    let rule = sidecar.api.post("/v1/alerts", json!({"channel": "runtime", "target": receiver.url})).await.ok();
    assert!(rule["secret"].as_str().unwrap().starts_with("whsec_"), "requests that stop something are signed: {rule}");
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.deliver().await;
    let request = receiver.take().remove(0);
    let expected = json!({"stop": true, "test": false, "agent_id": "a", "scope": "agent", "session": null, "until": null,
                          "reason": "the same prompt and the same answer 5 times in the last 6 calls", "generation": 1,
                          "timestamp": "2024-01-15T10:30:00.000Z"});
    assert_members(&request.json(), expected);
    assert!(request.header("webhook-signature").starts_with("v1,"));

    sidecar.api.post("/v1/agents/a/activate", json!({})).await.ok();
    sidecar.api.report("/v1/kills", kill("k2", "a", 2)).await.ok();
    sidecar.api.report("/v1/kills", stop("s", "b", 7)).await.ok();
    sidecar.api.report("/v1/kills", kill_with("o", "c", 1, json!({"action": "observe"}))).await.ok();
    sidecar.api.report("/v1/kills", kill_with("x", "d", 1, json!({"action": "block"}))).await.ok();
    sidecar.api.put("/v1/pause", json!({})).await.ok();
    sidecar.deliver().await;
    let told: Vec<_> = receiver.take().iter().map(|one| one.json()).collect();
    let told: Vec<_> = told.iter().map(|one| (one["agent_id"].as_str().unwrap(), one["stop"] == true)).collect();
    assert_eq!(told, [("a", false), ("a", true), ("b", true)], "every kill, however soon after the last");

    let path = format!("/v1/alerts/{}/test", rule["rule_id"].as_str().unwrap());
    assert_eq!(sidecar.api.post(&path, json!({})).await.ok()["status"], "delivered");
    assert_members(&receiver.take()[0].json(), json!({"stop": false, "test": true}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_created_tested_and_deleted_on_the_command_line() {
    let service = Service::start(pagerduty, 202).await;
    let (dir, process) = Process::start_in_new_dir(&["--allow-private-webhooks"]);
    let run = |arguments: &[&str]| cli(dir.path(), &process.api, &[&["alerts"], arguments].concat());
    let target = format!("{}/v2/enqueue?routing_key={KEY}", service.base);
    let made = run(&["create", "--channel", "pagerduty", "--target", &target, "--name", "on call", "--agent", "a"]);
    let said = String::from_utf8(made.stdout).unwrap();
    let rule_id = said.trim_end().strip_prefix("rule ").unwrap().to_owned();
    assert!(run(&["test", &rule_id]).status.success());
    assert_eq!(service.take().len(), 2);
    let listed = String::from_utf8(run(&["list"]).stdout).unwrap();
    assert!(listed.contains("on call  a      pagerduty") && !listed.contains(KEY), "{listed}");
    assert!(run(&["delete", &rule_id]).status.success());
    assert_eq!(run(&["test", &rule_id]).status.code(), Some(4));
    let made = run(&["create", "--channel", "runtime", "--target", &service.base, "--recovery", "false"]);
    assert!(String::from_utf8(made.stdout).unwrap().contains("secret whsec_"));
}
