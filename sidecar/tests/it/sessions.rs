//! With the scope `session`, a loop stops its conversation and the agent goes on, until too many conversations are
//! stopped or a person lets them go on.

use std::sync::atomic::Ordering;

use agent_kill_switch::wire::{Action, StoppedSession};
use futures_util::future::join_all;
use kill_switch::service::Limits;
use serde_json::{Value, json};

use crate::support::{Answer, Api, START_MS, Sidecar, assert_members, key, kill, kill_with, stop, stop_with};

const REASON: &str = "the same prompt and the same answer 5 times in the last 6 calls";
const HOUR_MS: u64 = 3_600_000;

async fn report(api: &Api, report: Value) -> Value {
    api.report("/v1/kills", report).await.ok()
}

/// Returns what filters are told about the stopped conversations of an agent.
async fn told(api: &Api, agent_id: &str) -> Vec<StoppedSession> {
    let agents = api.sync("").await.synced().agents;
    agents.into_iter().find(|agent| agent.agent_id == agent_id).unwrap().stopped_sessions
}

/// Returns the keys of the conversations of an agent that are stopped.
async fn stopped(api: &Api, agent_id: &str) -> Vec<String> {
    let page = api.get(&format!("/v1/agents/{agent_id}/sessions")).await.ok();
    let sessions = page["sessions"].as_array().unwrap().iter();
    sessions.map(|session| session["session_key"].as_str().unwrap().to_owned()).collect()
}

async fn resume(api: &Api, agent_id: &str, session: u64) -> Answer {
    let path = format!("/v1/agents/{agent_id}/sessions/{}/resume", key(session));
    api.post(&path, json!({"reason": "the tool works again", "by": "Ada"})).await
}

#[tokio::test]
async fn a_loop_stops_its_conversation_and_the_agent_goes_on() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let first = api.sync("").await.synced();
    let poll = api.poll("edge-2", &first.epoch, first.rev).await;
    let receipt = report(api, stop("k1", "a", 1)).await;
    assert_eq!(receipt["outcome"], "stopped");
    assert_members(&api.agent("a").await, json!({"active": true, "deactivated_by": null, "generation": 1}));

    let (news, _) = poll.await.unwrap();
    let expected = StoppedSession {
        key: key(1),
        until_ms: START_MS + HOUR_MS,
        stopped_for_ms: Some(HOUR_MS),
        releases: 0,
        action: Action::Deactivate,
        reason: REASON.to_owned(),
    };
    assert_eq!(news.agents[0].stopped_sessions, [expected]);
    assert!(news.agents[0].active);

    let events = api.events("event_type=kill_switch").await;
    assert_eq!(events.len(), 1);
    let recorded = json!({
        "id": receipt["event_id"], "agent_id": "a", "actor": "kill_switch", "reason": REASON, "kill_id": "k1",
        "session": "chat-1", "session_key": key(1), "scope": "session", "action": "deactivate",
        "until": "2024-01-15T11:30:00.000Z", "score": 13.0,
    });
    assert_members(&events[0], recorded);
    assert_eq!(events[0].get("deactivated_by"), None);
    let listed = api.get("/v1/agents/a/sessions").await.ok();
    let session = json!({
        "session_key": key(1), "session": "chat-1", "action": "deactivate", "reason": REASON,
        "stopped": "2024-01-15T10:30:00.000Z", "until": "2024-01-15T11:30:00.000Z", "releases": 0, "kill_id": "k1",
        "event_id": receipt["event_id"],
    });
    assert_eq!(listed, json!({"sessions": [session], "next_cursor": null}));

    sidecar.pass(1_800);
    assert_eq!(told(api, "a").await[0].stopped_for_ms, Some(HOUR_MS / 2), "the rest of its time");
    sidecar.pass(1_800);
    assert!(stopped(api, "a").await.is_empty() && told(api, "a").await.is_empty(), "the stop is over");
}

#[tokio::test]
async fn a_blocked_conversation_is_stopped_for_as_long_as_a_block_lasts() {
    let sidecar = Sidecar::guarding("a").await;
    let block = |kill_id: &str| stop_with(kill_id, "a", 1, json!({"action": "block"}));
    assert_eq!(report(&sidecar.api, block("k1")).await["outcome"], "blocked");
    let events = sidecar.api.events("event_type=blocked").await;
    let recorded = json!({
        "session": "chat-1", "scope": "session", "blocked": true, "block_reason": "loop_detected",
        "retry_after_seconds": 60, "until": "2024-01-15T10:31:00.000Z",
    });
    assert_members(&events[0], recorded);
    let told = told(&sidecar.api, "a").await;
    assert_eq!((told[0].action, told[0].until_ms), (Action::Block, START_MS + 60_000));
    assert_eq!(report(&sidecar.api, block("k2")).await["outcome"], "duplicate");
    sidecar.pass(60);
    assert_eq!(report(&sidecar.api, block("k3")).await["outcome"], "blocked", "it may be blocked again");
}

#[tokio::test]
async fn an_observed_conversation_is_only_recorded() {
    let sidecar = Sidecar::guarding("a").await;
    let before = sidecar.api.get("/v1/agents/a").await.etag();
    let observed = stop_with("k1", "a", 1, json!({"action": "observe"}));
    assert_eq!(report(&sidecar.api, observed).await["outcome"], "observed");
    let events = sidecar.api.events("event_type=would_kill").await;
    assert_members(&events[0], json!({"session": "chat-1", "session_key": key(1), "scope": "session"}));
    assert_eq!(sidecar.api.get("/v1/agents/a").await.etag(), before, "filters need not be told");
    assert!(stopped(&sidecar.api, "a").await.is_empty());
}

#[tokio::test]
async fn a_conversation_is_stopped_once_however_many_envoys_report_it() {
    let sidecar = Sidecar::guarding("a").await;
    let reports = (0..40).map(|n| report(&sidecar.api, stop(&format!("k{n}"), "a", 1)));
    let receipts = join_all(reports).await;
    let outcomes = |outcome: &str| receipts.iter().filter(|receipt| receipt["outcome"] == outcome).count();
    assert_eq!((outcomes("stopped"), outcomes("duplicate")), (1, 39));
    assert!(receipts.iter().all(|receipt| receipt["event_id"] == receipts[0]["event_id"]));
    let again = report(&sidecar.api, stop("k0", "a", 1)).await;
    assert_eq!(again["outcome"], "duplicate", "the same report again");
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 1);
    assert_eq!(sidecar.api.outbox_depth().await, 1);

    sidecar.pass(3_600);
    let later = report(&sidecar.api, stop("later", "a", 1)).await;
    assert_eq!(later["outcome"], "stopped", "it can be stopped again once the stop is over");
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 2);
    assert_eq!(stopped(&sidecar.api, "a").await, [key(1)]);
}

#[tokio::test]
async fn the_event_of_every_report_names_the_conversation() {
    let sidecar = Sidecar::guarding("a").await;
    let session = |id: Value| json!({"session": {"key": key(7), "id": id}});
    for (kill_id, more, named) in [
        ("k1", json!({"session": {"key": key(7)}}), format!("conversation {}", key(7))),
        ("k2", session(json!(null)), format!("conversation {}", key(7))),
        ("k3", session(json!("")), format!("conversation {}", key(7))),
        ("k4", session(json!("4711")), "4711".to_owned()),
        ("k5", session(json!("a\nb\u{1b}[2J")), "a b [2J".to_owned()),
        ("k6", session(json!("ä".repeat(500))), "ä".repeat(200)),
    ] {
        let observed = json!({"action": "observe"});
        let mut body = kill_with(kill_id, "a", 1, more);
        body.as_object_mut().unwrap().extend(observed.as_object().unwrap().clone());
        report(&sidecar.api, body).await;
        let event = &sidecar.api.events("agent_id=a").await[0];
        assert_members(event, json!({"session": named, "session_key": key(7), "scope": "agent", "kill_id": kill_id}));
    }
    report(&sidecar.api, kill_with("k7", "a", 1, session(json!("4711")))).await;
    let event = &sidecar.api.events("event_type=kill_switch").await[0];
    assert_members(event, json!({"session": "4711", "scope": "agent", "deactivated_by": "kill_switch"}));
    assert_eq!(sidecar.api.agent("a").await["active"], false, "with the scope agent, the agent is stopped");
    report(&sidecar.api, stop("k8", "b", 1)).await;
    let mut stale = stop("k9", "b", 1);
    stale["generation"] = json!(0);
    assert_eq!(report(&sidecar.api, stale).await["outcome"], "stale");
    let event = &sidecar.api.events("event_type=kill_stale").await[0];
    assert_members(event, json!({"session": "chat-1", "scope": "session"}));
}

#[tokio::test]
async fn a_report_that_does_not_identify_its_conversation_is_refused() {
    let sidecar = Sidecar::guarding("a").await;
    for (more, field) in [
        (json!({"scope": "session"}), "session"),
        (json!({"session": {"key": "12"}}), "session.key"),
        (json!({"session": {"key": "00000000000000XY"}}), "session.key"),
        (json!({"session": {"key": "000000000000000A"}}), "session.key"),
    ] {
        let problem = sidecar.api.report("/v1/kills", kill_with("k", "a", 1, more.clone())).await.problem(422);
        assert_eq!(problem["field"], field, "{more}");
    }
    sidecar.api.report("/v1/kills", kill_with("k", "a", 1, json!({"scope": "team"}))).await.problem(422);
    assert_eq!(sidecar.api.agent("a").await["active"], true);
}

#[tokio::test]
async fn the_agent_is_deactivated_when_exactly_as_many_conversations_are_stopped_as_its_policy_says() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    for session in 1..=4 {
        assert_eq!(report(api, stop(&format!("k{session}"), "a", session)).await["outcome"], "stopped");
    }
    report(api, stop("again", "a", 4)).await;
    assert_eq!(api.agent("a").await["active"], true, "the same conversation counts once");
    let fifth = report(api, stop("k5", "a", 5)).await;
    assert_eq!(fifth["outcome"], "applied");
    let reason = "5 conversations of this agent were stopped within an hour";
    let killed = json!({"active": false, "deactivated_by": "kill_switch", "generation": 1, "reason": reason});
    assert_members(&api.agent("a").await, killed.clone());
    assert_members(&json!(api.sync("").await.synced().agents[0]), killed);

    let events = api.events("event_type=kill_switch").await;
    assert_eq!(events.len(), 6, "one for each conversation and one for the agent");
    let recorded = json!({
        "id": fifth["event_id"], "reason": reason, "scope": "agent", "deactivated_by": "kill_switch", "kill_id": "k5",
        "escalate_after": 5, "actor": "kill_switch",
    });
    assert_members(&events[0], recorded);
    assert_members(&events[1], json!({"session": "chat-5", "scope": "session", "kill_id": "k5"}));
    assert_eq!(api.outbox_depth().await, 6);

    let again = report(api, stop("k5", "a", 5)).await;
    assert_eq!((&again["outcome"], &again["event_id"]), (&json!("duplicate"), &fifth["event_id"]));
    let late = report(api, stop("k6", "a", 6)).await;
    assert_eq!(late["outcome"], "stopped", "the agent is inactive already");
    let whole = report(api, kill("k7", "a", 1)).await;
    assert_eq!((&whole["outcome"], &whole["event_id"]), (&json!("duplicate"), &fifth["event_id"]));
}

#[tokio::test]
async fn only_conversations_stopped_within_the_last_hour_and_the_same_generation_count() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let is_active = async || api.agent("a").await["active"] == true;
    api.patch("/v1/agents/a", json!({"escalate_after": 2})).await.ok();
    report(api, stop("k1", "a", 1)).await;
    sidecar.pass(3_600);
    report(api, stop("k2", "a", 2)).await;
    assert!(is_active().await, "the first one is an hour old");
    sidecar.pass(1);
    report(api, stop_with("b", "a", 3, json!({"action": "block"}))).await;
    assert!(is_active().await, "a block does not count");
    resume(api, "a", 2).await.ok();
    report(api, stop("k4", "a", 4)).await;
    assert!(!is_active().await, "one that a person let go on counts");

    api.post("/v1/agents/a/activate", json!({})).await.ok();
    let next = |kill_id: &str, session: u64| stop_with(kill_id, "a", session, json!({"generation": 2}));
    report(api, next("k5", 5)).await;
    assert!(is_active().await, "those of another generation do not count");
    api.patch("/v1/agents/a", json!({"escalate_after": 0})).await.ok();
    for session in 6..20 {
        report(api, next(&format!("k{session}"), session)).await;
    }
    assert!(is_active().await, "0 means never");
    api.patch("/v1/agents/a", json!({"escalate_after": 1})).await.ok();
    sidecar.pass(3_600);
    report(api, next("last", 20)).await;
    assert_eq!(api.agent("a").await["reason"], "1 conversation of this agent was stopped within an hour");
}

#[tokio::test]
async fn a_stopped_conversation_goes_on_and_can_be_stopped_again() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    assert_eq!(
        resume(api, "a", 1).await.problem(404)["detail"],
        "there is no stopped conversation 0000000000000001",
        "nothing was stopped"
    );
    let first = report(api, stop("k1", "a", 1)).await;
    sidecar.pass(10);
    let rev = api.sync("").await.synced().rev;
    let resumed = resume(api, "a", 1).await.ok();
    let goes_on = json!({"session": "chat-1", "session_key": key(1), "until": null, "releases": 1});
    assert_members(&resumed, goes_on);
    let event = &api.events("event_type=session_resumed").await[0];
    let recorded = json!({
        "session": "chat-1", "session_key": key(1), "reason": "the tool works again", "by": "Ada",
        "actor": "token:operator", "agent_id": "a",
    });
    assert_members(event, recorded);
    assert!(api.sync("").await.synced().rev > rev);
    let released = &told(api, "a").await[0];
    assert_eq!((released.until_ms, released.stopped_for_ms, released.releases), (0, Some(0), 1));
    assert!(stopped(api, "a").await.is_empty());
    resume(api, "a", 1).await.problem(404);

    let late = report(api, stop("k2", "a", 1)).await;
    assert_eq!((&late["outcome"], &late["event_id"]), (&json!("duplicate"), &first["event_id"]), "before the release");
    let after = |kill_id: &str, releases: u64| {
        stop_with(kill_id, "a", 1, json!({"session": {"key": key(1), "id": "chat-1", "releases": releases}}))
    };
    assert_eq!(report(api, after("k3", 1)).await["outcome"], "stopped");
    assert_eq!(report(api, after("k4", 1)).await["outcome"], "duplicate");
    let now_told = told(api, "a").await;
    let until_ms = START_MS + 10_000 + HOUR_MS;
    assert_eq!(now_told.len(), 1, "only the latest stop of a conversation");
    assert_eq!((now_told[0].until_ms, now_told[0].releases), (until_ms, 1));
    assert_eq!(resume(api, "a", 1).await.ok()["releases"], 2);

    sidecar.pass(3_599);
    assert_eq!(told(api, "a").await[0].releases, 2, "an Envoy may still have the stop");
    sidecar.pass(1);
    assert!(told(api, "a").await.is_empty());
    assert_eq!(report(api, after("k5", 2)).await["outcome"], "stopped", "long after the release");
}

#[tokio::test]
async fn a_stop_that_is_over_cannot_be_resumed() {
    let sidecar = Sidecar::guarding("a").await;
    report(&sidecar.api, stop("k1", "a", 1)).await;
    sidecar.pass(3_600);
    resume(&sidecar.api, "a", 1).await.problem(404);
    resume(&sidecar.api, "nobody", 1).await.problem(404);
    let path = format!("/v1/agents/a/sessions/{}/resume", key(1));
    assert_eq!(sidecar.api.post(&path, json!({"resaon": "x"})).await.problem(422)["field"], "resaon");
    assert!(sidecar.api.events("event_type=session_resumed").await.is_empty());
}

#[tokio::test]
async fn activating_the_agent_ends_all_its_stops() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    report(api, stop("k1", "a", 1)).await;
    report(api, stop("k2", "a", 2)).await;
    api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    assert_eq!(stopped(api, "a").await, [key(2), key(1)], "newest first");
    api.post("/v1/agents/a/activate", json!({})).await.ok();
    assert!(stopped(api, "a").await.is_empty() && told(api, "a").await.is_empty());
    resume(api, "a", 1).await.problem(404);
    assert_eq!(report(api, stop("k3", "a", 3)).await["outcome"], "stale");
    let next = stop_with("k4", "a", 1, json!({"generation": 2}));
    assert_eq!(report(api, next).await["outcome"], "stopped", "the same conversation in the next generation");
}

#[tokio::test]
async fn filters_are_told_of_the_64_conversations_that_changed_last() {
    let sidecar = Sidecar::with(Limits { storm_kills: 0, ..Limits::default() }).await;
    let api = &sidecar.api;
    api.put("/v1/agents/a", json!({"scope": "session", "escalate_after": 0})).await.ok();
    for session in 1..=70 {
        report(api, stop(&format!("k{session}"), "a", session)).await;
        sidecar.clock.fetch_add(1, Ordering::SeqCst);
    }
    let keys = async || told(api, "a").await.into_iter().map(|session| session.key).collect::<Vec<_>>();
    assert_eq!(keys().await, (7..=70).map(key).collect::<Vec<_>>(), "those that changed last come last");
    resume(api, "a", 1).await.ok();
    assert_eq!(keys().await, (8..=70).chain([1]).map(key).collect::<Vec<_>>());
    let page = api.get("/v1/agents/a/sessions?limit=50").await.ok();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = api.get(&format!("/v1/agents/a/sessions?limit=50&cursor={cursor}")).await.ok();
    assert_eq!((rest["sessions"].as_array().unwrap().len(), &rest["next_cursor"]), (19, &json!(null)));
    let other = api.guarded("b").await;
    assert_eq!(other.get("stopped_sessions"), None);
    assert!(told(api, "b").await.is_empty());
}

#[tokio::test]
async fn filters_are_told_why_the_kill_switch_deactivated_an_agent() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    let reason = async || api.sync("").await.synced().agents[0].reason.clone();
    assert_eq!(reason().await, None);
    report(api, kill_with("k1", "a", 1, json!({"reason": "ä".repeat(500)}))).await;
    assert_eq!(reason().await, Some("ä".repeat(300)));
    assert_eq!(api.agent("a").await["reason"], "ä".repeat(300));
    api.put("/v1/agents/a", json!({})).await.ok();
    assert_eq!(reason().await, Some("ä".repeat(300)), "settings do not affect it");
    let activated = api.post("/v1/agents/a/activate", json!({})).await.ok();
    assert_eq!((activated.get("reason"), reason().await), (None, None));
    api.post("/v1/agents/a/deactivate", json!({"reason": "too expensive"})).await.ok();
    report(api, kill("k2", "a", 2)).await;
    assert_eq!(reason().await, None, "a person deactivated it");
    assert_eq!(api.patch("/v1/agents/a", json!({"reason": "x"})).await.problem(422)["field"], "reason");
}

#[tokio::test]
async fn old_stops_are_removed() {
    let sidecar = Sidecar::guarding("a").await;
    let api = &sidecar.api;
    report(api, stop("k1", "a", 1)).await;
    resume(api, "a", 1).await.ok();
    sidecar.pass(30 * 24 * 3_600);
    sidecar.service.expire().await.unwrap();
    assert_eq!(report(api, stop("k2", "a", 1)).await["outcome"], "duplicate", "the release is still known");
    sidecar.pass(2 * 3_600);
    sidecar.service.expire().await.unwrap();
    assert_eq!(report(api, stop("k3", "a", 1)).await["outcome"], "stopped");
}
