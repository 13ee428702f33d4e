//! Alert rules: made, changed, tried out and deleted; secrets shown once.

use std::sync::Arc;

use kill_switch::alerts::{AlertOptions, Guard, Mailer, SystemLookup};
use serde_json::json;

use crate::support::Sidecar;
use crate::support::process::{Process, cli};
use crate::support::receiver::Receiver;
use crate::support::smtp::MailServer;

#[tokio::test]
async fn a_rule_is_made_changed_and_deleted_and_its_secret_is_shown_once() {
    let sidecar = Sidecar::start().await;
    let rule =
        json!({"type": "kill_switch", "channel": "webhook", "target": "http://127.0.0.1:9/in", "name": "on call"});
    let made = sidecar.api.post("/v1/alerts", rule).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() > 40, "{secret}");
    assert_eq!(
        (&made["cooldown_seconds"], &made["recovery"], &made["enabled"]),
        (&json!(300), &json!(true), &json!(true))
    );
    let path = format!("/v1/alerts/{}", made["rule_id"].as_str().unwrap());
    for path in [path.as_str(), "/v1/alerts", "/v1/alerts/history"] {
        assert!(!sidecar.api.get(path).await.text.contains("whsec_"), "{path}");
    }
    let changed =
        sidecar.api.patch(&path, json!({"agent_id": "a", "cooldown_seconds": 0, "recovery": false})).await.ok();
    assert_eq!((&changed["agent_id"], &changed["cooldown_seconds"]), (&json!("a"), &json!(0)));
    assert_eq!(sidecar.api.delete(&path).await.status, 204);
    sidecar.api.get(&path).await.problem(404);
    sidecar.api.delete(&path).await.problem(404);
}

#[tokio::test]
async fn a_slack_url_is_a_secret_and_is_never_shown_again() {
    let sidecar = Sidecar::start().await;
    let rule = json!({"channel": "slack", "target": "http://127.0.0.1:9/services/T0/B0/open-sesame"});
    let made = sidecar.api.post("/v1/alerts", rule).await;
    assert_eq!(made.json()["target"], "http://127.0.0.1:9/...");
    assert_eq!(made.json()["secret"], json!(null));
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
async fn a_test_notice_says_at_once_how_it_went() {
    let sidecar = Sidecar::start().await;
    let receiver = Receiver::start().await;
    let made = sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    let path = format!("/v1/alerts/{}/test", made["rule_id"].as_str().unwrap());
    let went = sidecar.api.post(&path, json!({})).await.ok();
    assert_eq!((&went["status"], &went["attempts"], &went["last_code"]), (&json!("delivered"), &json!(1), &json!(204)));
    assert!(went["last_latency_ms"].is_u64());
    assert_eq!(receiver.take()[0].json()["type"], "alert.test");
    receiver.answer(500);
    let went = sidecar.api.post(&path, json!({})).await.ok();
    assert_eq!((&went["status"], &went["last_code"]), (&json!("given_up"), &json!(500)), "tried once");
    sidecar.api.post("/v1/alerts/none/test", json!({})).await.problem(404);
}

#[tokio::test]
async fn mail_addresses_are_checked_before_anything_is_saved() {
    let server = MailServer::start().await;
    let mailer = Mailer::new(&server.url, "Kill Switch <kill-switch@example.com>").unwrap();
    let options = AlertOptions { mailer: Some(mailer), public_url: None };
    let sidecar = Sidecar::with_alerts(Guard::anywhere(Arc::new(SystemLookup)), options).await;
    for target in ["nobody", "a@b.c, ", "a@example.com\r\nBcc: b@example.com", "@example.com"] {
        let problem = sidecar.api.post("/v1/alerts", json!({"channel": "email", "target": target})).await.problem(422);
        assert_eq!(problem["field"], "target", "{target:?}");
    }
    sidecar
        .api
        .post("/v1/alerts", json!({"channel": "email", "target": "Ops <ops@example.com>, b@example.com"}))
        .await
        .ok();
    assert!(Mailer::new("http://host", "a@example.com").is_err());
    assert!(Mailer::new(&server.url, "nobody").is_err());
}

// The command blocks its thread, and the receiver needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_lists_rules_tries_them_and_shows_what_was_sent() {
    let receiver = Receiver::start().await;
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), &["--allow-private-webhooks"]);
    let rule = json!({"channel": "webhook", "target": receiver.url, "name": "On call"});
    let made = process.api.post("/v1/alerts", rule).await.ok();
    let rule_id = made["rule_id"].as_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = cli(dir.path(), &process.api, arguments);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, list) = run(&["alerts", "list"]);
    assert!(code == 0 && list.contains(rule_id) && list.contains("On call"), "{list}");
    let (code, went) = run(&["alerts", "test", rule_id]);
    assert!(code == 0 && went.starts_with("delivered in "), "{went}");
    receiver.answer(500);
    assert_eq!(run(&["alerts", "test", rule_id]).0, 5, "a script can rely on the exit code");
    let (_, history) = run(&["alerts", "history"]);
    assert!(history.contains("given_up") && history.contains("delivered"), "{history}");
    assert_eq!(run(&["alerts", "test", "none"]).0, 4);
}
