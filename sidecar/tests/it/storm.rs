//! Too many kills within a minute pause the fleet, and give back what was stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use kill_switch::clock::rfc3339;
use kill_switch::service::Limits;
use kill_switch::store::Store;
use serde_json::{Value, json};

use crate::store::open_postgres;
use crate::support::fleet::{on_both_databases, sidecar_over};
use crate::support::postgres::database;
use crate::support::process::{Process, binary};
use crate::support::receiver::Receiver;
use crate::support::{Api, START_MS, Sidecar, assert_members, eventually, kill, kill_with, stop, stop_with};

on_both_databases![
    the_21st_kill_within_a_minute_pauses_and_gives_all_of_them_back,
    what_is_spread_over_time_or_done_by_a_person_is_no_storm,
    blocks_count_once_for_each_agent_and_conversations_are_given_back,
    agents_that_a_person_decided_about_since_are_left_alone,
    after_a_person_resumed_the_count_starts_again,
    kills_that_waited_for_the_sidecar_are_no_storm,
    loops_of_one_minute_are_a_storm_however_late_and_in_whatever_order_they_are_reported,
    kills_that_waited_are_no_storm_and_those_of_one_minute_are_one_whatever_the_clock_of_the_envoy_says,
    a_storm_after_a_pause_is_noticed_whatever_the_clock_of_the_envoy_says,
    a_block_of_a_conversation_that_is_stopped_again_does_not_count_as_one_of_the_agent,
];

/// Reports a kill of each agent, which is detected when it is reported.
async fn killed(api: &Api, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        killed_at(api, number, 0).await;
    }
}

async fn killed_at(api: &Api, number: u32, at_ms: u64) -> Value {
    let report = kill_with(&format!("k{number}"), &format!("agent-{number}"), 1, json!({"at_ms": at_ms}));
    api.report("/v1/kills", report).await.ok()
}

async fn is_paused(api: &Api) -> bool {
    api.get("/v1/pause").await.ok()["paused"] == true
}

async fn the_21st_kill_within_a_minute_pauses_and_gives_all_of_them_back(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    let receiver = Receiver::start().await;
    api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    let slack = Receiver::start().await;
    api.post("/v1/alerts", json!({"channel": "slack", "target": slack.url, "agent_id": "agent-1"})).await.ok();
    for number in 1..=21 {
        api.guarded(&format!("agent-{number}")).await;
    }
    killed(api, 1..=20).await;
    assert!(!is_paused(api).await);
    assert_eq!(api.agent("agent-20").await["active"], false);
    sidecar.deliver().await;
    assert_eq!(receiver.take().len(), 20);
    let before = api.sync("").await.synced();

    let poll = api.poll("edge", &before.epoch, before.rev).await;
    let last = killed_at(api, 21, 0).await;
    assert_members(&last, json!({"outcome": "applied", "generation": 2}));
    let (told, _) = poll.await.unwrap();
    assert_eq!(told.paused_for_ms, 3_600_000);
    let given_back = |agent: &&agent_kill_switch::wire::AgentPolicy| agent.active && agent.generation == 2;
    assert_eq!(told.agents.iter().filter(given_back).count(), 21, "one answer has the pause and all agents");
    let pause = json!({"paused": true, "cause": "storm", "actor": "kill_switch", "until": "2024-01-15T11:30:00.000Z",
                       "reason": "21 kills within a minute, which is more than 20"});
    assert_members(&api.get("/v1/pause").await.ok(), pause);
    for number in 1..=21 {
        let agent = api.agent(&format!("agent-{number}")).await;
        assert_members(&agent, json!({"active": true, "deactivated_by": null, "generation": 2}));
    }
    let [event] = api.events("event_type=paused").await.try_into().unwrap();
    assert_members(&event, json!({"kills": 21, "agents_given_back": 21, "sessions_given_back": 0, "cause": "storm"}));
    assert_eq!(event["given_back"].as_array().unwrap().len(), 21);
    let activated = api.events("event_type=activated").await;
    assert_eq!((activated.len(), &activated[0]["was_deactivated_by"]), (21, &json!("kill_switch")));

    sidecar.deliver().await;
    let mut notices: Vec<_> = receiver.take().iter().map(|one| one.json()).collect();
    notices.retain(|notice| notice["type"] != "agent.kill_switch");
    let [notice] = notices.try_into().unwrap();
    assert_eq!(notice["type"], "fleet.paused", "one notice, and none for each agent");
    assert_members(&notice["data"], json!({"agents_given_back": 21, "cause": "storm", "dry_run": false}));

    let text = slack.take().pop().unwrap().json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("*The kill switch was paused by a storm of kills: 21 agents given back*"), "{text}");
    assert!(text.contains("Why: 21 kills within a minute, which is more than 20"), "{text}");

    let late = api.report("/v1/kills", kill("k22", "agent-1", 2)).await.ok();
    assert_members(&late, json!({"outcome": "observed", "generation": 3}));
    assert_eq!(api.events("event_type=paused").await.len(), 1);
}

async fn what_is_spread_over_time_or_done_by_a_person_is_no_storm(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    killed(api, 1..=20).await;
    sidecar.pass(60);
    killed(api, 21..=40).await;
    for number in 50..=75 {
        let path = format!("/v1/agents/agent-{number}");
        api.put(&path, json!({})).await.ok();
        api.post(&format!("{path}/deactivate"), json!({})).await.ok();
    }
    for number in 80..=105 {
        let observed = kill_with(&format!("k{number}"), &format!("agent-{number}"), 1, json!({"action": "observe"}));
        api.report("/v1/kills", observed).await.ok();
    }
    for copy in 0..30 {
        api.report("/v1/kills", kill(&format!("copy-{copy}"), "agent-40", 1)).await.ok();
    }
    assert!(!is_paused(api).await);
    assert_eq!(api.agent("agent-1").await["active"], false);
    // The clock is set back by an hour: what was reported before does not count as the last minute.
    sidecar.clock.fetch_sub(3_600_000, Ordering::SeqCst);
    killed(api, 201..=201).await;
    assert!(!is_paused(api).await);
}

async fn blocks_count_once_for_each_agent_and_conversations_are_given_back(store: Arc<Store>) {
    let limits = Limits { storm_kills: 3, storm_pause: Duration::from_secs(60), ..Limits::default() };
    let sidecar = sidecar_over(store, limits).await;
    let api = &sidecar.api;
    api.put("/v1/agents/blocked", json!({"action": "block", "kill_switch_enabled": true})).await.ok();
    api.put("/v1/agents/chats", json!({"scope": "session", "escalate_after": 0})).await.ok();
    for block in 0..10 {
        let report = kill_with(&format!("b{block}"), "blocked", 1, json!({"action": "block"}));
        assert_eq!(api.report("/v1/kills", report).await.ok()["outcome"], "blocked");
    }
    for session in 1..=2 {
        api.report("/v1/kills", stop(&format!("s{session}"), "chats", session)).await.ok();
    }
    assert!(!is_paused(api).await, "one agent in a tight loop and two conversations are three");
    api.report("/v1/kills", stop("s3", "chats", 3)).await.ok();
    assert!(is_paused(api).await);
    assert_members(&api.agent("blocked").await, json!({"active": true, "generation": 2}));
    assert_members(&api.agent("chats").await, json!({"active": true, "generation": 1}));
    assert_eq!(api.get("/v1/agents/chats/sessions").await.ok()["sessions"], json!([]));
    let [event] = api.events("event_type=paused").await.try_into().unwrap();
    assert_members(&event, json!({"kills": 4, "agents_given_back": 1, "sessions_given_back": 3}));
    assert_eq!(api.events("event_type=session_resumed").await.len(), 3);
    assert_eq!(api.events("event_type=activated").await[0]["was_blocked"], true);
    let synced = api.sync("").await.synced();
    assert_eq!(synced.paused_for_ms, 60_000);
    let chats = synced.agents.iter().find(|agent| agent.agent_id == "chats").unwrap();
    assert!(chats.stopped_sessions.iter().all(|told| (told.until_ms, told.releases) == (0, 1)), "{chats:?}");
}

async fn agents_that_a_person_decided_about_since_are_left_alone(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits { storm_kills: 3, ..Limits::default() }).await;
    let api = &sidecar.api;
    killed(api, 1..=3).await;
    for verb in ["activate", "deactivate"] {
        api.post(&format!("/v1/agents/agent-1/{verb}"), json!({})).await.ok();
    }
    api.delete("/v1/agents/agent-2").await.ok();
    killed(api, 4..=4).await;
    assert!(is_paused(api).await);
    assert_members(&api.agent("agent-1").await, json!({"active": false, "deactivated_by": "manual", "generation": 2}));
    api.get("/v1/agents/agent-2").await.problem(404);
    for id in ["agent-3", "agent-4"] {
        assert_members(&api.agent(id).await, json!({"active": true, "generation": 2}));
    }
}

async fn after_a_person_resumed_the_count_starts_again(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits { storm_kills: 3, ..Limits::default() }).await;
    let api = &sidecar.api;
    killed(api, 1..=4).await;
    assert!(is_paused(api).await);
    api.delete("/v1/pause").await.ok();
    sidecar.clock.fetch_add(1, Ordering::SeqCst);
    killed(api, 5..=7).await;
    assert!(!is_paused(api).await, "the kills before the pause do not count again");
    assert_eq!(api.agent("agent-7").await["active"], false);
    killed(api, 8..=8).await;
    assert!(is_paused(api).await);
    assert_eq!(api.events("event_type=paused").await.len(), 2);
}

async fn kills_that_waited_for_the_sidecar_are_no_storm(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits::default()).await;
    let api = &sidecar.api;
    for number in 1..=30 {
        let receipt = killed_at(api, number, START_MS - 3_600_000 + u64::from(number) * 120_000).await;
        assert_eq!(receipt["outcome"], "applied");
    }
    assert!(!is_paused(api).await);
    for number in 1..=30 {
        assert_eq!(api.agent(&format!("agent-{number}")).await["active"], false);
    }
}

async fn loops_of_one_minute_are_a_storm_however_late_and_in_whatever_order_they_are_reported(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits { storm_kills: 3, ..Limits::default() }).await;
    let api = &sidecar.api;
    let hour_ago = START_MS - 3_600_000;
    killed_at(api, 1, hour_ago - 60_000).await;
    for (number, seconds) in [(2, 50), (3, 30), (4, 10)] {
        killed_at(api, number, hour_ago + seconds * 1_000).await;
    }
    assert!(!is_paused(api).await, "three within a minute, and one before");
    let last = killed_at(api, 5, hour_ago).await;
    assert_members(&last, json!({"outcome": "applied", "generation": 2}));
    assert!(is_paused(api).await);
    let [event] = api.events("event_type=paused").await.try_into().unwrap();
    assert_members(&event, json!({"kills": 4, "agents_given_back": 4}));
    assert_eq!(api.agent("agent-1").await["active"], false, "it was killed before the storm");
    // The rest of the storm is given back as well, and what was killed before it is not.
    assert_eq!(killed_at(api, 6, hour_ago + 40_000).await["outcome"], "observed");
    assert_eq!(killed_at(api, 7, hour_ago - 90_000).await["outcome"], "applied");
}

/// What the clocks of machines with an Envoy say: right, an hour ahead and an hour behind.
const CLOCKS: [i64; 3] = [0, 3_600_000, -3_600_000];

/// Reports a kill that was detected so long ago, by an Envoy whose clock is wrong by so much.
async fn killed_by(sidecar: &Sidecar, agent: &str, waited_ms: u64, clock_ms: i64) -> Value {
    let now_ms = sidecar.clock.load(Ordering::SeqCst);
    let at_ms = now_ms.saturating_add_signed(clock_ms) - waited_ms;
    let report = kill_with(&format!("kill-of-{agent}"), agent, 1, json!({"at_ms": at_ms, "waited_ms": waited_ms}));
    sidecar.api.report("/v1/kills", report).await.ok()
}

async fn kills_that_waited_are_no_storm_and_those_of_one_minute_are_one_whatever_the_clock_of_the_envoy_says(
    store: Arc<Store>,
) {
    let sidecar = sidecar_over(store, Limits { storm_kills: 3, ..Limits::default() }).await;
    let api = &sidecar.api;
    for clock_ms in CLOCKS {
        for number in 0..6 {
            let agent = format!("apart-{clock_ms}-{number}");
            let receipt = killed_by(&sidecar, &agent, 86_400_000 + number * 25_000, clock_ms).await;
            assert_eq!(receipt["outcome"], "applied", "{agent}");
        }
        assert!(!is_paused(api).await, "clock {clock_ms}: three within a minute at most");
        let event = &api.events(&format!("agent_id=apart-{clock_ms}-0")).await[0];
        let day_ago = rfc3339(sidecar.clock.load(Ordering::SeqCst) - 86_400_000);
        assert_eq!(event["detected_at"], day_ago, "clock {clock_ms}: by the clock of the sidecar");
        for number in 0..4 {
            killed_by(&sidecar, &format!("together-{clock_ms}-{number}"), 3_600_000 + number * 10_000, clock_ms).await;
        }
        assert!(is_paused(api).await, "clock {clock_ms}: four within a minute");
        for number in 0..4 {
            assert_eq!(api.agent(&format!("together-{clock_ms}-{number}")).await["active"], true, "clock {clock_ms}");
        }
        api.delete("/v1/pause").await.ok();
        sidecar.pass(10 * 86_400);
    }
}

async fn a_storm_after_a_pause_is_noticed_whatever_the_clock_of_the_envoy_says(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits { storm_kills: 3, ..Limits::default() }).await;
    let api = &sidecar.api;
    for clock_ms in CLOCKS {
        api.put("/v1/pause", json!({"for_seconds": 60})).await.ok();
        api.delete("/v1/pause").await.ok();
        sidecar.pass(1);
        for number in 0..4 {
            killed_by(&sidecar, &format!("agent-{clock_ms}-{number}"), 0, clock_ms).await;
        }
        assert!(is_paused(api).await, "clock {clock_ms}");
        for number in 0..4 {
            assert_eq!(api.agent(&format!("agent-{clock_ms}-{number}")).await["active"], true, "clock {clock_ms}");
        }
        api.delete("/v1/pause").await.ok();
        sidecar.pass(86_400);
    }
}

async fn a_block_of_a_conversation_that_is_stopped_again_does_not_count_as_one_of_the_agent(store: Arc<Store>) {
    let sidecar = sidecar_over(store, Limits { storm_kills: 1, ..Limits::default() }).await;
    let api = &sidecar.api;
    let policy = json!({"scope": "session", "escalate_after": 0, "action": "block", "retry_after_seconds": 1});
    api.put("/v1/agents/chats", policy).await.ok();
    for number in 1..=2 {
        let block = stop_with(&format!("b{number}"), "chats", 1, json!({"action": "block", "at_ms": 0}));
        assert_eq!(api.report("/v1/kills", block).await.ok()["outcome"], "blocked");
        sidecar.pass(2);
    }
    assert!(!is_paused(api).await, "one agent that was blocked twice");
    killed(api, 1..=1).await;
    assert!(is_paused(api).await);
    assert_members(&api.agent("chats").await, json!({"active": true, "generation": 1}));
    let [event] = api.events("event_type=paused").await.try_into().unwrap();
    assert_members(&event, json!({"agents_given_back": 1, "given_back": ["agent-1"]}));
}

#[tokio::test]
async fn the_count_starts_again_although_the_clock_of_another_replica_is_ahead() {
    let ahead = Sidecar::with(Limits { storm_kills: 3, ..Limits::default() }).await;
    let limits = Limits { storm_kills: 3, ..Limits::default() };
    let other = sidecar_over(Arc::clone(&ahead.store), limits).await;
    ahead.pass(30);
    killed(&other.api, 1..=4).await;
    assert!(is_paused(&other.api).await);
    ahead.api.delete("/v1/pause").await.ok();
    killed(&other.api, 5..=5).await;
    assert!(!is_paused(&other.api).await, "the kills before the pause do not count again");
}

#[tokio::test]
async fn storms_can_be_switched_off() {
    let sidecar = Sidecar::with(Limits { storm_kills: 0, ..Limits::default() }).await;
    killed(&sidecar.api, 1..=60).await;
    assert!(!is_paused(&sidecar.api).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_over_two_replicas_pauses_once() {
    let Some(url) = database().await else { return };
    let a = sidecar_over(open_postgres(&url).await, Limits::default()).await;
    let b = sidecar_over(open_postgres(&url).await, Limits::default()).await;
    let reports = (1..=30).map(|number| {
        let api = if number % 2 == 0 { &a.api } else { &b.api };
        api.report("/v1/kills", kill(&format!("k{number}"), &format!("agent-{number}"), 1))
    });
    let receipts: Vec<Value> = join_all(reports).await.into_iter().map(crate::support::Answer::ok).collect();
    let with = |outcome: &str| receipts.iter().filter(|receipt| receipt["outcome"] == outcome).count();
    assert_eq!((with("applied"), with("observed")), (21, 9));
    for api in [&a.api, &b.api] {
        let [event] = api.events("event_type=paused").await.try_into().unwrap();
        assert_members(&event, json!({"kills": 21, "agents_given_back": 21}));
        for number in 1..=30 {
            let agent = api.agent(&format!("agent-{number}")).await;
            assert_members(&agent, json!({"active": true, "generation": 2}));
        }
    }
    // The other replica learns of it, as of every change.
    let follower = tokio::spawn({
        let service = Arc::clone(&b.service);
        async move { service.follow().await }
    });
    eventually("the other replica tells filters", || async { b.api.sync("").await.synced().paused_for_ms > 0 }).await;
    follower.abort();
}

#[tokio::test]
async fn the_options_of_the_server_set_the_limit_and_the_length() {
    let (_dir, process) = Process::start_in_new_dir(&["--storm-kills", "2", "--storm-pause", "5m"]);
    killed(&process.api, 1..=3).await;
    let pause = process.api.get("/v1/pause").await.ok();
    assert_eq!(pause["reason"], "3 kills within a minute, which is more than 2");
    let ms = |member: &str| kill_switch::clock::parse_rfc3339(pause[member].as_str().unwrap()).unwrap();
    assert_eq!(ms("until") - ms("since"), 300_000);
    let refused = binary().args(["serve", "--storm-pause", "8d"]).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("--storm-pause") && error.contains("must be from 1s to 7d"), "{error}");
}
