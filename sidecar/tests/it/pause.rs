//! While the fleet is paused, every Envoy is told so, and nothing is stopped.

use std::sync::Arc;

use kill_switch::alerts::{Guard, SystemLookup};
use kill_switch::service::Limits;
use kill_switch::store::Store;
use reqwest::Method;
use serde_json::{Value, json};

use crate::dashboard::Visitor;
use crate::support::fleet::{on_both_databases, sidecar_over};
use crate::support::process::{Process, cli};
use crate::support::receiver::Receiver;
use crate::support::{
    Api, ENFORCER, OPERATOR, SOON, START_MS, Sidecar, VIEWER, assert_members, key, kill, kill_with, stop, stop_with,
};

on_both_databases![
    a_pause_reaches_waiting_polls_and_ends_when_a_person_says_so,
    a_pause_ends_by_itself_and_that_is_recorded_once,
    a_late_report_is_recorded_and_the_agent_is_given_back,
    a_late_report_of_a_block_or_a_stopped_conversation_is_given_back,
    agents_that_are_inactive_stay_inactive,
    a_kill_that_was_detected_before_the_pause_stays_however_late_it_is_reported,
];

async fn pause(api: &Api, seconds: u64) -> Value {
    api.put("/v1/pause", json!({"for_seconds": seconds, "reason": "a release", "by": "Ada"})).await.ok()
}

async fn a_pause_reaches_waiting_polls_and_ends_when_a_person_says_so(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    api.guarded("a").await;
    let first = api.sync("").await.synced();
    assert_eq!(first.paused_for_ms, 0);
    let poll = api.poll("edge", &first.epoch, first.rev).await;
    let begun = pause(api, 600).await;
    let expected = json!({"paused": true, "since": "2024-01-15T10:30:00.000Z", "until": "2024-01-15T10:40:00.000Z",
                          "cause": "manual", "actor": "token:operator", "by": "Ada", "reason": "a release"});
    assert_members(&begun, expected);
    let (told, _) = poll.await.unwrap();
    assert_eq!((told.paused_for_ms, told.agents.len(), told.rev), (600_000, 0, first.rev + 1));
    sidecar.pass(60);
    assert_eq!(api.sync("").await.synced().paused_for_ms, 540_000, "every answer says how long it still lasts");
    assert!(api.get("/metrics").await.text.contains("\nkill_switch_paused 1\n"));

    let restarted = Sidecar::over_same(&sidecar, Guard::anywhere(Arc::new(SystemLookup))).await;
    assert_eq!(restarted.api.get("/v1/pause").await.ok()["reason"], "a release", "a restart keeps it");

    let poll = api.poll("edge-2", &told.epoch, told.rev).await;
    let ended =
        Api::take(api.request(Method::DELETE, "/v1/pause", &api.operator).json(&json!({"reason": "done"}))).await;
    assert_eq!(
        ended.ok(),
        json!({"paused": false, "since": null, "until": null, "cause": null, "actor": null,
                                  "by": null, "reason": null, "event_id": null})
    );
    assert_eq!(poll.await.unwrap().0.paused_for_ms, 0);
    assert!(api.get("/metrics").await.text.contains("\nkill_switch_paused 0\n"));
    api.delete("/v1/pause").await.ok();
    let events = api.events("limit=2").await;
    assert_members(&events[0], json!({"event_type": "resumed", "agent_id": "", "reason": "done", "cause": "manual"}));
    assert_members(&events[1], json!({"event_type": "paused", "by": "Ada", "until": "2024-01-15T10:40:00.000Z"}));
    assert_eq!(events[1]["id"], begun["event_id"]);
    assert_eq!(api.events("event_type=resumed").await.len(), 1, "ending it again changes nothing");
    let killed = api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!((&killed["outcome"], api.agent("a").await["active"].clone()), (&json!("applied"), json!(false)));
}

async fn a_pause_ends_by_itself_and_that_is_recorded_once(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    pause(api, 60).await;
    let rev = api.sync("").await.synced().rev;
    sidecar.service.end_expired_pause().await.unwrap();
    sidecar.pass(60);
    assert_eq!(api.get("/v1/pause").await.ok()["paused"], false, "also before that is recorded");
    assert_eq!(api.sync("").await.synced().paused_for_ms, 0);
    for _ in 0..2 {
        sidecar.service.end_expired_pause().await.unwrap();
    }
    let [ended] = api.events("event_type=resumed").await.try_into().unwrap();
    assert_members(&ended, json!({"actor": "kill_switch", "reason": "its time was up"}));
    assert_eq!(api.sync("").await.synced().rev, rev + 1, "Envoys whose clocks are wrong are told");
}

async fn a_late_report_is_recorded_and_the_agent_is_given_back(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    api.guarded("a").await;
    pause(api, 600).await;
    let receipt = api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    assert_members(&receipt, json!({"outcome": "observed", "generation": 2}));
    assert_members(&api.agent("a").await, json!({"active": true, "deactivated_by": null, "generation": 2}));
    let [event] = api.events("event_type=would_kill").await.try_into().unwrap();
    assert_members(&event, json!({"agent_id": "a", "paused": true, "action": "deactivate", "generation": 1}));
    assert!(api.events("event_type=kill_switch").await.is_empty());
    let synced = api.sync("").await.synced();
    let told = synced.agents.iter().find(|agent| agent.agent_id == "a").unwrap();
    assert_eq!((told.active, told.generation), (true, 2), "the Envoy that killed it follows");
    // The report of another Envoy that had not heard either, and the same report again.
    assert_eq!(api.report("/v1/kills", kill("k2", "a", 1)).await.ok()["outcome"], "stale");
    assert_eq!(api.report("/v1/kills", kill("k1", "a", 1)).await.ok()["outcome"], "duplicate");
    assert_eq!(api.agent("a").await["generation"], 2);
}

async fn a_late_report_of_a_block_or_a_stopped_conversation_is_given_back(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    api.guarded("blocked").await;
    api.put("/v1/agents/chats", json!({"scope": "session", "escalate_after": 2})).await.ok();
    let earlier = api.report("/v1/kills", stop("s1", "chats", 1)).await.ok();
    assert_eq!(earlier["outcome"], "stopped");
    pause(api, 600).await;
    let block = api.report("/v1/kills", kill_with("b", "blocked", 1, json!({"action": "block"}))).await.ok();
    assert_members(&block, json!({"outcome": "observed", "generation": 2}));
    for session in 2..=4 {
        let receipt = api.report("/v1/kills", stop(&format!("s{session}"), "chats", session)).await.ok();
        assert_members(&receipt, json!({"outcome": "observed", "generation": 1}));
    }
    assert_eq!(api.agent("chats").await["active"], true, "nothing is escalated");
    let stopped = api.get("/v1/agents/chats/sessions").await.ok();
    let keys: Vec<_> = stopped["sessions"].as_array().unwrap().iter().map(|one| one["session_key"].clone()).collect();
    assert_eq!(keys, [json!(key(1))], "the one from before the pause stays stopped");
    let synced = api.sync("").await.synced();
    let told = &synced.agents.iter().find(|agent| agent.agent_id == "chats").unwrap().stopped_sessions;
    let released: Vec<_> = told.iter().filter(|told| (told.until_ms, told.releases) == (0, 1)).collect();
    assert_eq!((told.len(), released.len()), (4, 3), "the Envoys that stopped the others let them go on");
    let events = api.events("event_type=would_kill&agent_id=chats").await;
    assert_eq!((events.len(), &events[0]["paused"], events[0].get("until")), (3, &json!(true), None));
    // After the pause, those that were let go on do not count among the stops that escalate.
    api.delete("/v1/pause").await.ok();
    let next = stop_with("s9", "chats", 2, json!({"session": {"key": key(2), "releases": 1}}));
    assert_eq!(api.report("/v1/kills", next).await.ok()["outcome"], "applied", "the second stop, with the first one");
}

async fn agents_that_are_inactive_stay_inactive(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    for id in ["killed", "manual"] {
        api.guarded(id).await;
    }
    api.report("/v1/kills", kill("k1", "killed", 1)).await.ok();
    pause(api, 600).await;
    api.post("/v1/agents/manual/deactivate", json!({})).await.ok();
    assert_eq!(api.report("/v1/kills", kill("k2", "killed", 1)).await.ok()["outcome"], "duplicate");
    assert_eq!(api.report("/v1/kills", kill("k3", "manual", 1)).await.ok()["outcome"], "observed");
    let state = json!({"active": false, "generation": 1});
    assert_members(&api.agent("killed").await, state.clone());
    assert_members(&api.agent("manual").await, state);
    api.delete("/v1/pause").await.ok();
    assert_eq!(api.agent("killed").await["active"], false);
}

async fn a_kill_that_was_detected_before_the_pause_stays_however_late_it_is_reported(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    for id in ["earlier", "clock"] {
        api.guarded(id).await;
    }
    pause(api, 600).await;
    let earlier = json!({"at_ms": START_MS - 600_000});
    let receipt = api.report("/v1/kills", kill_with("k1", "earlier", 1, earlier.clone())).await.ok();
    assert_members(&receipt, json!({"outcome": "applied", "generation": 1}));
    assert_eq!(api.agent("earlier").await["active"], false);
    // The pause is replaced by a longer one, and an Envoy had not heard of the first one.
    api.guarded("during").await;
    sidecar.pass(120);
    pause(api, 1_200).await;
    let receipt = api.report("/v1/kills", kill_with("k4", "during", 1, json!({"at_ms": START_MS + 1_000}))).await.ok();
    assert_members(&receipt, json!({"outcome": "observed", "generation": 2}));
    // The clock of an Envoy may be a little behind, so a kill shortly before the pause counts as one during it.
    let shortly_before = json!({"at_ms": START_MS - 59_000});
    let receipt = api.report("/v1/kills", kill_with("k2", "clock", 1, shortly_before)).await.ok();
    assert_members(&receipt, json!({"outcome": "observed", "generation": 2}));
    // If a report says how long it has waited, that counts, and the clock of the Envoy does not.
    for (agent, waited_ms, at_ms, outcome) in
        [("waited", 900_000, START_MS + 3_600_000, "applied"), ("at-once", 0, START_MS - 3_600_000, "observed")]
    {
        api.guarded(agent).await;
        let times = json!({"at_ms": at_ms, "waited_ms": waited_ms});
        let receipt = api.report("/v1/kills", kill_with(agent, agent, 1, times)).await.ok();
        assert_eq!(receipt["outcome"], outcome, "{agent}");
    }
    api.put("/v1/agents/chats", json!({"scope": "session"})).await.ok();
    assert_eq!(api.report("/v1/kills", stop_with("s1", "chats", 1, earlier)).await.ok()["outcome"], "stopped");
    assert_eq!(api.get("/v1/agents/chats/sessions").await.ok()["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_pause_counts_as_over_if_the_clock_of_the_sidecar_was_set_back() {
    let sidecar = Sidecar::start().await;
    pause(&sidecar.api, 600).await;
    sidecar.clock.store(START_MS - 3_600_000, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(sidecar.api.get("/v1/pause").await.ok()["paused"], false);
    sidecar.service.end_expired_pause().await.unwrap();
    assert!(sidecar.api.events("event_type=resumed").await.is_empty(), "this clock may be the one that is wrong");
    // A person can end it nevertheless, so that it does not come back later.
    sidecar.api.delete("/v1/pause").await.ok();
    assert_eq!(sidecar.api.events("event_type=resumed").await.len(), 1);
}

#[tokio::test]
async fn a_replica_whose_clock_is_behind_does_not_end_the_pause_of_the_others() {
    let sidecar = Sidecar::start().await;
    let behind = Sidecar::over_same(&sidecar, Guard::anywhere(Arc::new(SystemLookup))).await;
    behind.clock.fetch_sub(120_000, std::sync::atomic::Ordering::SeqCst);
    pause(&sidecar.api, 600).await;
    behind.service.end_expired_pause().await.unwrap();
    assert_eq!(sidecar.api.get("/v1/pause").await.ok()["paused"], true);
    assert!(sidecar.api.events("event_type=resumed").await.is_empty());
}

#[tokio::test]
async fn wrong_values_are_refused_by_name_and_only_operators_may_pause() {
    let sidecar = Sidecar::start().await;
    let api = &sidecar.api;
    for (body, field, detail) in [
        (json!({"for_seconds": 0}), "for_seconds", "for_seconds (0) must be a whole number from 1 to 604800"),
        (json!({"for_seconds": 604_801}), "for_seconds", "for_seconds (604801) must be a whole number"),
        (json!({"for_seconds": "1h"}), "for_seconds", "for_seconds (\"1h\") must be a whole number"),
        (json!({"seconds": 60}), "seconds", "only for_seconds, reason and by are understood here"),
        (json!({"reason": 5}), "reason", "reason must be a text"),
    ] {
        let problem = api.put("/v1/pause", body).await.problem(422);
        assert_eq!(problem["field"], field, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    for (method, token, status) in [
        (Method::GET, VIEWER, 200),
        (Method::PUT, VIEWER, 403),
        (Method::DELETE, VIEWER, 403),
        (Method::GET, ENFORCER, 403),
        (Method::PUT, ENFORCER, 403),
    ] {
        let answer = Api::take(api.request(method.clone(), "/v1/pause", token)).await;
        assert_eq!(answer.status.as_u16(), status, "{method} as {token}");
    }
    assert!(api.events("event_type=paused").await.is_empty());
    let pause = api.put("/v1/pause", json!({})).await.ok();
    assert_eq!(pause["until"], "2024-01-15T11:30:00.000Z", "an hour unless something else is asked for");
}

#[tokio::test]
async fn every_rule_is_notified_of_a_pause_and_of_its_end() {
    let sidecar = Sidecar::start().await;
    let (all, one, quiet) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    for (receiver, more) in [(&all, json!({})), (&one, json!({"agent_id": "a"})), (&quiet, json!({"recovery": false}))]
    {
        let mut rule = json!({"channel": "webhook", "target": receiver.url});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sidecar.api.post("/v1/alerts", rule).await.ok();
    }
    for _ in 0..2 {
        pause(&sidecar.api, 600).await;
        sidecar.api.delete("/v1/pause").await.ok();
        sidecar.deliver().await;
    }
    let types = |receiver: &Receiver| {
        let mut types: Vec<_> = receiver.take().iter().map(|one| one.json()["type"].clone()).collect();
        types.sort_by_key(Value::to_string);
        types
    };
    let both = ["fleet.paused", "fleet.paused", "fleet.resumed", "fleet.resumed"];
    assert_eq!(types(&all), both, "no cooldown holds a pause back");
    assert_eq!(types(&one), both, "also a rule about one agent, which is not protected any more");
    assert_eq!(types(&quiet), ["fleet.paused"; 2]);
}

#[tokio::test]
async fn the_command_line_pauses_shows_and_resumes() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    let run = |arguments: &[&str]| {
        let output = cli(dir.path(), &process.api, arguments);
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["pause", "--status"]).1, "not paused: loops are stopped\n");
    let (code, said, _) = run(&["pause", "--for", "30m", "--reason", "a release", "--by", "Ada"]);
    assert_eq!(code, Some(0));
    assert!(said.starts_with("paused until 20") && said.contains(" by Ada (token:operator): a release; "), "{said}");
    let status: Value = serde_json::from_str(&run(&["pause", "--status", "-o", "json"]).1).unwrap();
    assert_members(&status, json!({"paused": true, "cause": "manual", "by": "Ada"}));
    let doctor = run(&["doctor"]).1;
    let line = doctor.lines().find(|line| line.starts_with("pause")).unwrap();
    assert!(line.contains("warn") && line.contains("paused until"), "{doctor}");
    let (code, _, error) = run(&["pause", "--for", "8d"]);
    assert!(
        code != Some(0) && error.contains("for_seconds (691200) must be a whole number from 1 to 604800"),
        "{error}"
    );
    assert_eq!(run(&["resume", "--reason", "done"]).1, "not paused: loops are stopped\n");
    assert_eq!(process.api.events("event_type=resumed").await[0]["reason"], "done");
    // The server itself ends a pause whose time is up.
    assert_eq!(run(&["pause", "--for", "1s"]).0, Some(0));
    lab::proc::wait_until("the pause ends", SOON, || async {
        process.api.events("event_type=resumed").await.len() == 2
    })
    .await;
    assert_eq!(process.api.events("event_type=resumed").await[0]["actor"], "kill_switch");
}

#[tokio::test]
async fn a_page_that_says_why_nothing_was_done_shows_the_pause_as_well() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.put("/v1/pause", json!({"for_seconds": 600, "by": "Ada"})).await.ok();
    let mut visitor = Visitor::signed_in(&sidecar, OPERATOR).await;
    let forged: &[(&str, &str)] = &[("form_key", "another")];
    for (answer, status) in [
        (visitor.get("/agents/nobody").await, 404),
        (visitor.get("/kills/77").await, 404),
        (visitor.post("/agents/a/deactivate", forged).await, 403),
    ] {
        assert_eq!(answer.status(), status);
        let page = answer.text().await.unwrap();
        assert!(page.contains("Not done") && page.contains("Ada") && page.contains("action=\"/resume\""), "{page}");
    }
    let stranger =
        sidecar.api.http.post(format!("{}/login", sidecar.api.base)).send().await.unwrap().text().await.unwrap();
    assert!(!stranger.contains("Ada"), "who is not signed in is not told: {stranger}");
}
