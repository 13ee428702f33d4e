//! The log says who did what to tokens and alert rules, and who signed in.

use std::path::Path;

use serde_json::json;

use crate::dashboard::Visitor;
use crate::support::process::Process;

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap()
}

#[tokio::test]
async fn whoever_changes_tokens_and_alert_rules_or_signs_in_is_named_by_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_logging(dir.path(), &["--allow-private-webhooks"]);
    let api = &process.api;
    let made = api.post("/v1/tokens", json!({"name": "ci", "scope": "viewer"})).await.ok();
    let (token, secret) = (made["token_id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(api.delete(&format!("/v1/tokens/{token}")).await.status, 204);
    let target = json!({"channel": "webhook", "target": "http://127.0.0.1:1/a-secret-path"});
    let made = api.post("/v1/alerts", target).await.ok();
    let rule = made["rule_id"].as_str().unwrap();
    api.patch(&format!("/v1/alerts/{rule}"), json!({"target": "http://127.0.0.1:1/another-secret-path"})).await.ok();
    api.patch(&format!("/v1/alerts/{rule}"), json!({"enabled": false})).await.ok();

    let password = std::fs::read_to_string(dir.path().join("tokens/dashboard.password")).unwrap();
    let mut visitor = Visitor::at(&api.base);
    assert_eq!(visitor.sign_in(password.trim()).await.status(), 303);
    let key = visitor.key("/alerts").await;
    assert_eq!(visitor.post(&format!("/alerts/{rule}/delete"), &[("form_key", &key)]).await.status(), 303);

    let log = log(dir.path());
    let mut rest = log.as_str();
    for act in [
        "actor=command_line action=operator_token_created id=".to_owned(),
        format!("actor=token:operator action=viewer_token_created id={token}"),
        format!("actor=token:operator action=token_revoked id={token}"),
        format!("actor=token:operator action=alert_rule_created id={rule}"),
        format!("actor=token:operator action=alert_rule_changed id={rule}"),
        format!("actor=token:operator action=alert_rule_switched_off id={rule}"),
        "actor=dashboard action=signed_in id=127.0.0.1".to_owned(),
        format!("actor=dashboard action=alert_rule_deleted id={rule}"),
    ] {
        rest = rest.split_once(&format!("kill_switch::trail: done {act}")).unwrap_or_else(|| panic!("{act}: {log}")).1;
    }
    for secret in [secret, password.trim(), "secret-path"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

#[tokio::test]
async fn the_log_says_once_that_an_address_fails_too_often() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_logging(dir.path(), &[]);
    let mut stranger = Visitor::at(&process.api.base);
    let mut statuses = Vec::new();
    for attempt in 0..14 {
        statuses.push(stranger.sign_in(&format!("a guess {attempt}")).await.status().as_u16());
    }
    assert_eq!((&statuses[..10], &statuses[10..]), (&[401; 10][..], &[429; 4][..]));
    let log = log(dir.path());
    assert_eq!(log.matches("signing in failed from=127.0.0.1").count(), 10, "{log}");
    assert_eq!(log.matches("too many failed authentications").count(), 1, "{log}");
}
