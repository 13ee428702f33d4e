//! Alerts arrive: signed, at least once, always under the same id, and not more often than the rule allows.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kill_switch::alerts::{AlertOptions, Guard, Mailer, SystemLookup};
use kill_switch::service::Limits;
use lab::proc::PythonClient;
use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::receiver::{Received, Receiver};
use crate::support::smtp::MailServer;
use crate::support::{Sidecar, assert_members, eventually, key, kill, kill_with, stop, stop_with};

/// Starts a sidecar and a receiver, and creates a rule that connects them.
pub async fn alerted(more: Value) -> (Sidecar, Receiver, Value) {
    let (sidecar, receiver) = (Sidecar::start().await, Receiver::start().await);
    let rule = rule(&sidecar, &receiver, more).await;
    (sidecar, receiver, rule)
}

async fn rule(sidecar: &Sidecar, receiver: &Receiver, more: Value) -> Value {
    let mut rule = json!({"channel": "webhook", "target": receiver.url});
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    sidecar.api.post("/v1/alerts", rule).await.ok()
}

async fn latest(sidecar: &Sidecar) -> Value {
    sidecar.api.get("/v1/alerts/history?limit=1").await.ok()["deliveries"][0].clone()
}

async fn activate(sidecar: &Sidecar, agent_id: &str) {
    sidecar.api.post(&format!("/v1/agents/{agent_id}/activate"), json!({"reason": "fixed", "by": "Ada"})).await.ok();
}

#[tokio::test]
async fn a_notice_of_a_kill_contains_its_numbers_and_not_its_prompts() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    let report = kill_with("k", "a", 1, json!({"excerpt": "my secret prompt"}));
    sidecar.api.report("/v1/kills", report).await.ok();
    assert_eq!(sidecar.deliver().await, 1);
    let received = receiver.take().remove(0);
    let body = received.json();
    assert_members(&body, json!({"type": "agent.kill_switch", "timestamp": "2024-01-15T10:30:00.000Z"}));
    let data = json!({"agent_id": "a", "score": 13.0, "threshold": 10.0, "similar_prompts": 5, "dry_run": false,
                      "kill_id": "k", "event_type": "kill_switch"});
    assert_members(&body["data"], data);
    assert!(!received.body.contains("my secret prompt") && !received.body.contains("prompt_hash"));
    assert_members(&latest(&sidecar).await, json!({"status": "delivered", "attempts": 1, "last_code": 204}));
    assert_eq!(sidecar.deliver().await, 0, "it is delivered once");
    assert_eq!(sidecar.api.outbox_depth().await, 0);
}

#[tokio::test]
async fn a_failed_delivery_is_retried_with_the_same_id_and_body() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    for status in [500, 404, 429] {
        receiver.answer(status);
    }
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    // The waits are partly random: 2.5 to 5 s, 5 to 10 s, 10 to 20 s.
    for (attempt, too_soon, late_enough) in [(1, 2, 3), (2, 4, 6), (3, 9, 11)] {
        assert_eq!(sidecar.deliver().await, 1, "attempt {attempt}");
        assert_members(&latest(&sidecar).await, json!({"status": "pending", "attempts": attempt}));
        sidecar.pass(too_soon);
        assert_eq!(sidecar.deliver().await, 0, "{too_soon} s after attempt {attempt} is too soon");
        sidecar.pass(late_enough);
    }
    assert_eq!(sidecar.deliver().await, 1);
    assert_eq!(latest(&sidecar).await["status"], "delivered");
    let received = receiver.take();
    assert_eq!(received.len(), 4);
    for retry in &received {
        assert_eq!(retry.header("webhook-id"), received[0].header("webhook-id"));
        assert_eq!(retry.body, received[0].body);
    }
    let times: Vec<u64> = received.iter().map(|one| one.header("webhook-timestamp").parse().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "each attempt is signed with its own time: {times:?}");
}

#[tokio::test]
async fn retry_after_is_respected() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    receiver.answer_with(503, "retry-after", "120");
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(sidecar.deliver().await, 1);
    sidecar.pass(119);
    assert_eq!(sidecar.deliver().await, 0);
    sidecar.pass(1);
    assert_eq!(sidecar.deliver().await, 1);
    assert_eq!(receiver.take().len(), 2);
}

#[tokio::test]
async fn a_receiver_cannot_ask_for_so_much_time_that_nothing_more_is_attempted() {
    // A day is as long as a delivery is attempted, and an hour is the longest wait.
    for (give_up_after_s, waits_s) in [(24 * 3_600, 3_600), (1_000, 250)] {
        let alert_give_up_after = Duration::from_secs(give_up_after_s);
        let sidecar = Sidecar::with(Limits { alert_give_up_after, ..Limits::default() }).await;
        let receiver = Receiver::start().await;
        sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
        receiver.answer_with(503, "retry-after", "86400");
        sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
        assert_eq!(sidecar.deliver().await, 1);
        sidecar.pass(waits_s - 1);
        assert_eq!(sidecar.deliver().await, 0);
        sidecar.pass(1);
        assert_eq!(sidecar.deliver().await, 1);
        assert_eq!(receiver.take().len(), 2);
    }
}

#[tokio::test]
async fn status_410_switches_the_rule_off() {
    let (sidecar, receiver, rule) = alerted(json!({})).await;
    receiver.answer(500);
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    sidecar.deliver().await;
    receiver.answer(410);
    sidecar.api.report("/v1/kills", kill("k2", "b", 1)).await.ok();
    assert_eq!(sidecar.deliver().await, 1);
    let path = format!("/v1/alerts/{}", rule["rule_id"].as_str().unwrap());
    let off = json!({"enabled": false, "disabled_reason": "the receiver answered 410 Gone"});
    assert_members(&sidecar.api.get(&path).await.ok(), off);
    sidecar.api.report("/v1/kills", kill("k3", "c", 1)).await.ok();
    sidecar.pass(3_600);
    assert_eq!(sidecar.deliver().await, 0, "neither the pending delivery nor a new one is attempted");
    let history = sidecar.api.get("/v1/alerts/history?status=given_up").await.ok();
    assert_eq!(history["deliveries"].as_array().unwrap().len(), 2);
    let on = sidecar.api.patch(&path, json!({"enabled": true})).await.ok();
    assert_eq!(on["disabled_reason"], "");
}

#[tokio::test]
async fn a_delivery_is_given_up_after_the_configured_time() {
    let limits = Limits { alert_give_up_after: Duration::from_secs(60), ..Limits::default() };
    let (sidecar, receiver) = (Sidecar::with(limits).await, Receiver::start().await);
    rule(&sidecar, &receiver, json!({})).await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    let mut attempts = 0;
    while latest(&sidecar).await["status"] != "given_up" {
        receiver.answer(500);
        attempts += sidecar.deliver().await;
        sidecar.pass(5);
        assert!(attempts < 20, "it never gives up");
    }
    assert!(attempts >= 3, "{attempts}");
    let given_up = json!({"attempts": attempts, "last_code": 500, "next_attempt": null});
    assert_members(&latest(&sidecar).await, given_up);
    assert_eq!(sidecar.api.outbox_depth().await, 0);
}

#[tokio::test]
async fn a_pending_delivery_is_given_up_when_its_rule_is_switched_off() {
    let (sidecar, receiver, rule) = alerted(json!({})).await;
    let path = format!("/v1/alerts/{}", rule["rule_id"].as_str().unwrap());
    receiver.answer(500);
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    sidecar.deliver().await;
    sidecar.api.patch(&path, json!({"enabled": false})).await.ok();
    sidecar.pass(5);
    sidecar.deliver().await;
    assert_eq!(latest(&sidecar).await["status"], "given_up");
    assert_eq!(receiver.take().len(), 1);
    let test = sidecar.api.post(&format!("{path}/test"), json!({})).await.ok();
    assert_eq!(test["status"], "delivered", "tests still work");
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    let elsewhere = Receiver::start().await;
    for status in [301, 302, 303, 307, 308] {
        receiver.answer_with(status, "location", &elsewhere.url);
        sidecar.api.report("/v1/kills", kill(&format!("k{status}"), &format!("a{status}"), 1)).await.ok();
        sidecar.deliver().await;
        assert_members(&latest(&sidecar).await, json!({"status": "pending", "last_code": status}));
    }
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn the_cooldown_holds_back_further_notices_about_the_same_agent_only() {
    let (sidecar, receiver, _) = alerted(json!({"cooldown_seconds": 60, "recovery": false})).await;
    let without_cooldown = Receiver::start().await;
    rule(&sidecar, &without_cooldown, json!({"cooldown_seconds": 0, "recovery": false})).await;
    let again = async |generation: u64| {
        sidecar.api.report("/v1/kills", kill(&format!("k{generation}"), "a", generation)).await.ok();
        sidecar.deliver().await;
        activate(&sidecar, "a").await;
        sidecar.deliver().await;
    };
    again(1).await;
    sidecar.pass(30);
    again(2).await;
    sidecar.api.report("/v1/kills", kill("b", "b", 1)).await.ok();
    sidecar.deliver().await;
    assert_eq!(receiver.take().len(), 2, "one about a, one about b");
    let held = sidecar.api.get("/v1/alerts/history?status=held_back").await.ok();
    assert_eq!(held["deliveries"][0]["last_error"], "within the cooldown of 60 s");
    sidecar.pass(30);
    again(3).await;
    assert_eq!(receiver.take().len(), 1, "counted from what was sent, not from what was held back");
    assert_eq!(without_cooldown.take().len(), 4, "each rule has its own cooldown");
}

#[tokio::test]
async fn recovery_is_sent_to_the_receivers_that_got_the_kill() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    sidecar.deliver().await;
    let (late, uninterested) = (Receiver::start().await, Receiver::start().await);
    rule(&sidecar, &uninterested, json!({"recovery": false})).await;
    rule(&sidecar, &late, json!({})).await;
    activate(&sidecar, "a").await;
    sidecar.deliver().await;
    let recovery = receiver.take().remove(1).json();
    assert_eq!((&recovery["type"], &recovery["data"]["by"]), (&json!("agent.activated"), &json!("Ada")));
    assert!(late.take().is_empty() && uninterested.take().is_empty());
    // Activating an agent that a person had deactivated is not a recovery.
    sidecar.api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    activate(&sidecar, "a").await;
    sidecar.deliver().await;
    assert!(receiver.take().is_empty());
}

#[tokio::test]
async fn a_dry_run_is_marked_and_does_not_start_the_cooldown_of_a_kill() {
    let (sidecar, receiver, _) = alerted(json!({})).await;
    sidecar.api.report("/v1/kills", kill_with("o", "a", 1, json!({"action": "observe"}))).await.ok();
    sidecar.deliver().await;
    let notice = receiver.take().remove(0).json();
    assert_eq!((&notice["type"], &notice["data"]["dry_run"]), (&json!("agent.would_kill"), &json!(true)));
    sidecar.api.report("/v1/kills", kill_with("b", "a", 1, json!({"action": "block"}))).await.ok();
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    sidecar.deliver().await;
    assert_eq!(receiver.types(), ["agent.blocked", "agent.kill_switch"]);
}

#[tokio::test]
async fn a_rule_gets_only_notices_about_its_agent_and_only_of_later_events() {
    let sidecar = Sidecar::start().await;
    let receiver = Receiver::start().await;
    sidecar.api.report("/v1/kills", kill("old", "a", 1)).await.ok();
    sidecar.pass(1);
    rule(&sidecar, &receiver, json!({"agent_id": "b"})).await;
    rule(&sidecar, &receiver, json!({"agent_id": "b", "enabled": false})).await;
    sidecar.api.report("/v1/kills", kill("b", "b", 1)).await.ok();
    sidecar.api.report("/v1/kills", kill("c", "c", 1)).await.ok();
    sidecar.deliver().await;
    let received = receiver.take();
    assert_eq!(received.iter().map(|one| one.json()["data"]["agent_id"].clone()).collect::<Vec<_>>(), [json!("b")]);
}

#[tokio::test]
async fn the_text_for_slack_cannot_notify_a_channel() {
    let (sidecar, receiver, _) = alerted(json!({"channel": "slack"})).await;
    let report = kill_with("k", "a", 1, json!({"reason": "<!channel> & <https://evil.example|click>"}));
    sidecar.api.report("/v1/kills", report).await.ok();
    sidecar.deliver().await;
    let text = receiver.take().remove(0).json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("*Agent a was deactivated by the kill switch*\n"), "{text}");
    assert!(text.contains("Score: 13.0 &gt; 10.0 over the last 20 calls"), "{text}");
    assert!(text.contains("&lt;!channel&gt; &amp; &lt;https"), "{text}");
}

#[tokio::test]
async fn text_from_clients_cannot_forge_a_line_of_a_notice() {
    let (sidecar, receiver, _) = alerted(json!({"channel": "slack"})).await;
    let forged = "grep\nNow: All is well.\u{2028}\u{1b}[2J\u{202e}";
    let more = json!({"reason": forged, "tools": [forged], "session": {"key": key(1), "id": forged}});
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, more)).await.ok();
    sidecar.deliver().await;
    let text = receiver.take().remove(0).json()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Why: grep\u{FFFD}Now: All is well.") && text.contains("Tools: grep\u{FFFD}"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("Now: ")).count(), 1, "{text}");
    assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || ['\u{2028}', '\u{202e}'].contains(&c)), "{text:?}");
}

#[tokio::test]
async fn a_notice_of_a_stopped_conversation_says_that_the_agent_goes_on() {
    let (sidecar, receiver, _) = alerted(json!({"channel": "slack", "cooldown_seconds": 0})).await;
    let webhook = Receiver::start().await;
    rule(&sidecar, &webhook, json!({"cooldown_seconds": 0})).await;
    let unnamed = json!({"session": {"key": key(9)}});
    for (report, subject, now) in [
        (
            stop("k1", "a", 1),
            "*Conversation chat-1 of agent a was stopped by the kill switch*\n",
            "Now: Its requests are refused until 2024-01-15T11:30:00.000Z; the agent itself goes on.",
        ),
        (
            stop_with("k2", "a", 9, unnamed),
            "*Conversation 0000000000000009 of agent a was stopped by the kill switch*\n",
            "the agent itself goes on",
        ),
        (
            stop_with("k3", "a", 3, json!({"action": "block"})),
            "*Conversation chat-3 of agent a is temporarily blocked because it is in a loop*\n",
            "refused until 2024-01-15T10:31:00.000Z; the agent itself goes on.",
        ),
        (
            stop_with("k4", "a", 4, json!({"action": "observe"})),
            "*[dry run] Conversation chat-4 of agent a would have been stopped by the kill switch*\n",
            "Nothing was stopped",
        ),
        (
            stop_with("k5", "a", 5, json!({"scope": "agent"})),
            "*Agent a was deactivated by the kill switch*\n",
            "Conversation: chat-5",
        ),
    ] {
        sidecar.api.report("/v1/kills", report).await.ok();
        sidecar.deliver().await;
        let text = receiver.take().remove(0).json()["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with(subject) && text.contains(now), "{text}");
    }
    let types =
        ["session.kill_switch", "session.kill_switch", "session.blocked", "session.would_kill", "agent.kill_switch"];
    let data =
        json!({"scope": "session", "session": "chat-1", "session_key": key(1), "until": "2024-01-15T11:30:00.000Z"});
    assert_members(&webhook.received()[0].json()["data"], data);
    assert_eq!(webhook.types(), types);
    assert_members(&latest(&sidecar).await, json!({"kind": "kill_switch", "scope": "agent"}));
}

#[tokio::test]
async fn stopped_conversations_do_not_hold_back_the_notice_that_the_agent_was_deactivated() {
    let (sidecar, receiver, _) = alerted(json!({"cooldown_seconds": 300})).await;
    sidecar.api.put("/v1/agents/a", json!({"scope": "session", "escalate_after": 3})).await.ok();
    for session in 1..=3 {
        sidecar.api.report("/v1/kills", stop(&format!("k{session}"), "a", session)).await.ok();
    }
    sidecar.deliver().await;
    let reason = receiver.received()[1].json()["data"]["reason"].clone();
    assert_eq!(reason, "3 conversations of this agent were stopped within an hour");
    assert_eq!(receiver.types(), ["session.kill_switch", "agent.kill_switch"]);
    sidecar.api.report("/v1/kills", stop("late", "a", 4)).await.ok();
    sidecar.deliver().await;
    activate(&sidecar, "a").await;
    sidecar.deliver().await;
    assert_eq!(receiver.types(), ["agent.activated"], "the recovery of the agent is announced");
}

#[tokio::test]
async fn mail_is_sent_by_smtp_and_retried_when_refused() {
    let server = MailServer::start().await;
    let mailer = Mailer::new(&server.url, "Kill Switch <kill-switch@example.com>").unwrap();
    let options =
        AlertOptions { mailer: Some(mailer), public_url: Some("https://kill-switch.example.com/".to_owned()) };
    let sidecar = Sidecar::with_alerts(Guard::anywhere(Arc::new(SystemLookup)), options).await;
    let rule = json!({"channel": "email", "target": "ops@example.com, Ada <ada@example.com>"});
    sidecar.api.post("/v1/alerts", rule).await.ok();
    server.refuse(1);
    let forged = "loop\r\nBcc: x@example.com\u{1b}[2J\u{202e}";
    let report = kill_with("k", "team/a", 1, json!({"reason": forged, "tools": [forged]}));
    sidecar.api.report("/v1/kills", report).await.ok();
    sidecar.deliver().await;
    let delivery = latest(&sidecar).await;
    assert_eq!((&delivery["status"], &delivery["last_code"]), (&json!("pending"), &json!(451)), "{delivery}");
    sidecar.pass(5);
    sidecar.deliver().await;
    assert_eq!(latest(&sidecar).await["last_code"], 250);
    let mail = server.mails().remove(0);
    assert_eq!(mail.from, "<kill-switch@example.com>");
    assert_eq!(mail.to, ["<ops@example.com>", "<ada@example.com>"]);
    let (headers, body) = mail.text.split_once("\r\n\r\n").unwrap();
    assert!(headers.contains("Subject: Agent team/a was deactivated by the kill switch"), "{headers}");
    assert!(headers.contains(&format!("<{}@kill-switch>", delivery["delivery_id"].as_str().unwrap())), "{headers}");
    assert!(!headers.contains("Bcc"), "{headers}");
    assert!(!body.lines().any(|line| line.starts_with("Bcc")), "{body}");
    assert!(!body.contains(['\u{1b}', '\u{202e}']) && !body.contains("=1B") && !body.contains("=E2=80=AE"), "{body}");
    let story = format!("https://kill-switch.example.com/kills/{}", delivery["event_id"]);
    assert!(body.contains(&story), "{body}");
}

#[tokio::test]
async fn a_delivery_survives_a_crash_of_the_sidecar() {
    let receiver = Receiver::start().await;
    let dir = tempfile::tempdir().unwrap();
    let private = ["--allow-private-webhooks"];
    let mut process = Process::start(dir.path(), &private);
    process.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    receiver.answer(500);
    process.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    eventually("the first attempt", async || receiver.received().len() == 1).await;
    process.kill_9();
    process = Process::start(dir.path(), &private);
    eventually("the second attempt", async || receiver.received().len() == 2).await;
    let received = receiver.received();
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[0].body, received[1].body);
    eventually("the delivery is recorded", async || {
        let history = process.api.get("/v1/alerts/history").await.ok();
        history["deliveries"][0]["status"] == "delivered"
    })
    .await;
}

fn verify(python: &PythonClient, secret: &str, received: &Received, body: &str) -> bool {
    let script = "import json, sys, standardwebhooks.webhooks as w\n\
        import datetime\n\
        case = json.load(sys.stdin)\n\
        hook = w.Webhook(case['secret'])\n\
        hook._Webhook__verify_timestamp = lambda t: datetime.datetime.fromtimestamp(float(t), tz=datetime.timezone.utc)\n\
        hook.verify(case['body'], case['headers'])\n";
    let headers: Value = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        .map(|name| (name.to_owned(), json!(received.header(name))))
        .into_iter()
        .collect::<serde_json::Map<_, _>>()
        .into();
    let case = json!({"secret": secret, "body": body, "headers": headers});
    let mut child = Command::new(python.interpreter())
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(case.to_string().as_bytes()).unwrap();
    child.wait().unwrap().success()
}

#[tokio::test]
async fn signatures_verify_with_an_independent_implementation() {
    let Some(python) = PythonClient::get() else { return };
    let (sidecar, receiver, rule) = alerted(json!({})).await;
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, json!({"reason": "größer, 猫, \u{202e}"}))).await.ok();
    sidecar.deliver().await;
    let received = receiver.take().remove(0);
    let secret = rule["secret"].as_str().unwrap();
    assert!(verify(&python, secret, &received, &received.body));
    assert!(!verify(&python, secret, &received, &received.body.replace("13.0", "1.0")), "a changed body");
    let other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert!(!verify(&python, other, &received, &received.body), "another secret");
}
