//! Alert rules: they are created, changed, tested and deleted, and their secrets are shown once.

use std::sync::Arc;

use kill_switch::alerts::{AlertOptions, Guard, Mailer, SystemLookup};
use serde_json::json;

use crate::support::process::{Process, cli};
use crate::support::receiver::Receiver;
use crate::support::smtp::MailServer;
use crate::support::{Sidecar, assert_members};

#[tokio::test]
async fn a_rule_is_created_changed_and_deleted_and_its_secret_is_shown_once() {
    let sidecar = Sidecar::start().await;
    let rule =
        json!({"type": "kill_switch", "channel": "webhook", "target": "http://127.0.0.1:9/in", "name": "on call"});
    let created = sidecar.api.post("/v1/alerts", rule).await;
    assert_eq!(created.status, 201);
    let created = created.json();
    let secret = created["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() > 40, "{secret}");
    assert_members(&created, json!({"cooldown_seconds": 300, "recovery": true, "enabled": true}));
    let path = format!("/v1/alerts/{}", created["rule_id"].as_str().unwrap());
    for path in [path.as_str(), "/v1/alerts", "/v1/alerts/history"] {
        assert!(!sidecar.api.get(path).await.text.contains("whsec_"), "{path}");
    }
    let change = json!({"agent_id": "a", "cooldown_seconds": 0, "recovery": false});
    assert_members(&sidecar.api.patch(&path, change.clone()).await.ok(), change);
    assert_eq!(sidecar.api.delete(&path).await.status, 204);
    sidecar.api.get(&path).await.problem(404);
    sidecar.api.delete(&path).await.problem(404);
}

#[tokio::test]
async fn the_path_of_a_slack_url_is_never_shown() {
    let sidecar = Sidecar::start().await;
    let rule = json!({"channel": "slack", "target": "http://127.0.0.1:9/services/T0/B0/open-sesame"});
    let created = sidecar.api.post("/v1/alerts", rule).await;
    assert_members(&created.json(), json!({"target": "http://127.0.0.1:9/...", "secret": null}));
    assert!(!sidecar.api.get("/v1/alerts").await.text.contains("open-sesame"));
}

#[tokio::test]
async fn a_refusal_names_the_field() {
    let sidecar = Sidecar::start().await;
    let good = json!({"channel": "webhook", "target": "http://127.0.0.1:9/"});
    for (more, field) in [
        (json!({"channel": "pigeon"}), "channel"),
        (json!({"channel": null}), "channel"),
        (json!({"channel": "email", "target": "ops@example.com"}), "channel"),
        (json!({"target": ""}), "target"),
        (json!({"target": 7}), "target"),
        (json!({"type": "weather"}), "type"),
        (json!({"agent_id": "<script>"}), "agent_id"),
        (json!({"cooldown_seconds": -1}), "cooldown_seconds"),
        (json!({"cooldown_seconds": 604_801}), "cooldown_seconds"),
        (json!({"recovery": "yes"}), "recovery"),
        (json!({"name": "a\nb"}), "name"),
        (json!({"secret": "mine"}), "secret"),
    ] {
        let mut rule = good.as_object().unwrap().clone();
        rule.extend(more.as_object().unwrap().clone());
        let problem = sidecar.api.post("/v1/alerts", json!(rule)).await.problem(422);
        assert_eq!(problem["field"], field, "{more}: {problem}");
    }
    assert_eq!(sidecar.api.post("/v1/alerts", json!({})).await.problem(422)["field"], "channel");
}

#[tokio::test]
async fn a_test_notice_is_sent_once_and_its_outcome_returned() {
    let sidecar = Sidecar::start().await;
    let receiver = Receiver::start().await;
    let created = sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    let path = format!("/v1/alerts/{}/test", created["rule_id"].as_str().unwrap());
    let delivery = sidecar.api.post(&path, json!({})).await.ok();
    assert_members(&delivery, json!({"status": "delivered", "attempts": 1, "last_code": 204}));
    assert!(delivery["last_latency_ms"].is_u64());
    assert_eq!(receiver.take()[0].json()["type"], "alert.test");
    receiver.answer(500);
    let delivery = sidecar.api.post(&path, json!({})).await.ok();
    assert_eq!((&delivery["status"], &delivery["last_code"]), (&json!("given_up"), &json!(500)), "one attempt only");
    sidecar.api.post("/v1/alerts/none/test", json!({})).await.problem(404);
}

#[tokio::test]
async fn mail_addresses_are_checked_when_a_rule_is_saved() {
    let server = MailServer::start().await;
    let mailer = Mailer::new(&server.url, "Kill Switch <kill-switch@example.com>").unwrap();
    let options = AlertOptions { mailer: Some(mailer), public_url: None };
    let sidecar = Sidecar::with_alerts(Guard::anywhere(Arc::new(SystemLookup)), options).await;
    for target in ["nobody", "a@b.c, ", "a@example.com\r\nBcc: b@example.com", "@example.com"] {
        let problem = sidecar.api.post("/v1/alerts", json!({"channel": "email", "target": target})).await.problem(422);
        assert_eq!(problem["field"], "target", "{target:?}");
    }
    let rule = json!({"channel": "email", "target": "Ops <ops@example.com>, b@example.com"});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    assert!(Mailer::new("http://host", "a@example.com").is_err());
    assert!(Mailer::new(&server.url, "nobody").is_err());
}

// The command blocks its thread, so the receiver needs another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_lists_rules_tests_them_and_lists_deliveries() {
    let receiver = Receiver::start().await;
    let (dir, process) = Process::start_in_new_dir(&["--allow-private-webhooks"]);
    let rule = json!({"channel": "webhook", "target": receiver.url, "name": "On call"});
    let created = process.api.post("/v1/alerts", rule).await.ok();
    let rule_id = created["rule_id"].as_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = cli(dir.path(), &process.api, arguments);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, list) = run(&["alerts", "list"]);
    assert!(code == 0 && list.contains(rule_id) && list.contains("On call"), "{list}");
    let (code, outcome) = run(&["alerts", "test", rule_id]);
    assert!(code == 0 && outcome.starts_with("delivered in "), "{outcome}");
    receiver.answer(500);
    assert_eq!(run(&["alerts", "test", rule_id]).0, 5, "the exit code says that the notice did not arrive");
    let (_, history) = run(&["alerts", "history"]);
    assert!(history.contains("given_up") && history.contains("delivered"), "{history}");
    assert_eq!(run(&["alerts", "test", "none"]).0, 4);
}
