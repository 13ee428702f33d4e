//! The link against a scripted host.

mod clock;
mod entries;
mod failing;
mod outbox;
mod partition;
mod refused;

use super::lease::{LEASE_MS, YOUNGER_MS};
use super::*;
use crate::agent::record::{Details, Record, Value};
use crate::config::Config;
use crate::host::fake::Fake;
use crate::shared::agent_key;

fn worker() -> Rc<Worker> {
    let config = Config::parse(br#"{"cluster": "kill-switch"}"#, &|_| None).unwrap();
    Rc::new(Worker::new(config, "envoy 1".into()))
}

fn answer(status: u16, body: &str) -> Option<Incoming> {
    Some(Incoming { status, from_sidecar: true, body: body.as_bytes().to_vec() })
}

/// The calls made so far, by method and path.
fn calls(host: &Fake) -> Vec<String> {
    host.calls.borrow().iter().map(|call| format!("{} {}", call.method, call.path)).collect()
}

fn last_call(host: &Fake) -> CallId {
    CallId(host.calls.borrow().len() as u32)
}

/// Returns a host, and a link of a new worker.
fn linked() -> (Fake, Rc<Worker>, Link) {
    let (host, worker) = (Fake::new(), worker());
    let link = Link::new(Rc::clone(&worker), &host);
    (host, worker, link)
}

/// Returns a link that has applied [`PAGE`].
fn synced() -> (Fake, Rc<Worker>, Link) {
    let (host, worker, mut link) = linked();
    link.tick(&host);
    link.response(&host, last_call(&host), answer(200, PAGE));
    (host, worker, link)
}

fn record(host: &Fake, agent: &str) -> Option<Record> {
    Value::decode(&host.get(&agent_key(agent)).bytes).map(|value| value.record)
}

const PAGE: &str = r#"{"epoch": "e1", "rev": 5, "full": true, "more": false,
    "agents": [{"agent_id": "a", "active": true, "kill_switch_enabled": true, "generation": 3}]}"#;

#[test]
fn the_first_poll_asks_for_everything_and_the_next_for_changes() {
    let (host, _, mut link) = linked();
    link.tick(&host);
    assert_eq!(calls(&host), ["GET /v1/sync?epoch=&since=0&wait=4&envoy=envoy%201"]);
    link.response(&host, last_call(&host), answer(200, PAGE));
    assert_eq!(record(&host, "a").unwrap().generation, 3);
    assert_eq!(calls(&host)[1], "GET /v1/sync?epoch=e1&since=5&wait=4&envoy=envoy%201", "at once");
    link.response(&host, last_call(&host), answer(304, ""));
    assert_eq!(calls(&host).len(), 3);
}

#[test]
fn a_poll_after_a_failure_is_answered_at_once_so_that_the_recovery_is_noticed() {
    let (host, _, mut link) = synced();
    link.response(&host, last_call(&host), None);
    host.wait(1_300);
    link.tick(&host);
    assert_eq!(calls(&host)[2], "GET /v1/sync?epoch=e1&since=5&wait=0&envoy=envoy%201");
    assert_eq!(host.calls.borrow()[2].timeout_ms, 4_000);
    link.response(&host, last_call(&host), answer(304, ""));
    assert_eq!(calls(&host)[3], "GET /v1/sync?epoch=e1&since=5&wait=4&envoy=envoy%201");
    assert_eq!(host.calls.borrow()[3].timeout_ms, 8_000);
}

#[test]
fn one_of_many_links_polls_and_another_takes_over_when_it_stops() {
    let host = Fake::new();
    let mut links: Vec<Link> = (0..5).map(|_| Link::new(worker(), &host)).collect();
    for _ in 0..10 {
        links.iter_mut().for_each(|link| link.tick(&host));
        host.wait(TICK_MS);
    }
    assert_eq!(calls(&host).len(), 1);
    let mut rest = links.split_off(1);
    host.wait(LEASE_MS + 1);
    rest.iter_mut().for_each(|link| link.tick(&host));
    assert_eq!(calls(&host).len(), 2, "one of the others");
}

#[test]
fn a_root_with_a_newer_configuration_takes_over_at_once() {
    let host = Fake::new();
    let mut old = Link::new(worker(), &host);
    old.tick(&host);
    host.wait(YOUNGER_MS + 1);
    old.tick(&host);
    let mut new = Link::new(worker(), &host);
    new.tick(&host);
    assert_eq!(calls(&host).len(), 2);
    host.wait(TICK_MS);
    assert!(!old.claim.holds(&host, host.steady_ms()));
}

#[test]
fn failures_are_retried_with_growing_pauses_and_logged_once() {
    let (host, _, mut link) = linked();
    let mut pauses = Vec::new();
    for failure in [None, answer(500, ""), answer(200, "{\"epoch\": 1"), None, None, None, None, None] {
        link.tick(&host);
        link.response(&host, last_call(&host), failure);
        let before = host.now_ms();
        let count = calls(&host).len();
        while calls(&host).len() == count {
            host.wait(50);
            link.tick(&host);
        }
        pauses.push(host.now_ms() - before);
    }
    assert!(pauses.windows(2).all(|pair| pair[1] + 1_000 > pair[0]), "{pauses:?}");
    assert!((1_000..=1_300).contains(&pauses[0]) && (3_000..=3_800).contains(&pauses[7]), "{pauses:?}");
    assert_eq!(host.lines().len(), 1, "{:?}", host.lines());
    link.response(&host, last_call(&host), answer(200, PAGE));
    assert_eq!(host.lines()[1], "the sidecar answers again");
}

#[test]
fn an_answer_by_envoy_in_the_sidecars_place_is_a_failure() {
    let (host, _, mut link) = linked();
    link.tick(&host);
    let synthetic = Incoming { status: 304, from_sidecar: false, body: Vec::new() };
    link.response(&host, last_call(&host), Some(synthetic));
    assert_eq!(calls(&host).len(), 1, "waits before it asks again");
    assert_eq!(host.lines().len(), 1);
}

#[test]
fn a_local_kill_outlives_a_policy_of_its_generation_and_ends_with_an_activation() {
    let (host, _, mut link) = synced();
    host.overwrite(&agent_key("a"), record(&host, "a").unwrap().killed().encode(&Details::default()));
    let news = |generation| {
        format!(
            r#"{{"epoch": "e1", "rev": 6, "agents": [{{"agent_id": "a", "active": true, "generation": {generation}}}]}}"#
        )
    };
    link.response(&host, last_call(&host), answer(200, &news(3)));
    assert!(record(&host, "a").unwrap().is_killed());
    link.response(&host, last_call(&host), answer(200, &news(4)));
    assert!(record(&host, "a").unwrap().active);
}

#[test]
fn a_new_policy_leaves_the_window_as_it_is() {
    let (host, _, mut link) = synced();
    host.overwrite(&agent_key("a"), [host.get(&agent_key("a")).bytes, b"window".to_vec()].concat());
    link.response(&host, last_call(&host), answer(200, &PAGE.replace("true, \"generation", "false, \"generation")));
    assert!(!record(&host, "a").unwrap().enabled);
    assert!(host.get(&agent_key("a")).bytes.ends_with(b"window"));
}

#[test]
fn agents_that_a_full_sync_does_not_name_are_gone_once_its_last_page_is_applied() {
    let (host, worker, mut link) = synced();
    let page = |rev, agent: &str, more| {
        format!(
            r#"{{"epoch": "e2", "rev": {rev}, "full": {}, "more": {more}, "agents": [{{"agent_id": "{agent}", "active": true}}]}}"#,
            rev == 1
        )
    };
    link.response(&host, last_call(&host), answer(200, &page(1, "b", true)));
    assert_eq!(worker.round.get(), Some(1), "the old list is in force until the new one is complete");
    assert_eq!(calls(&host).last().unwrap(), "GET /v1/sync?epoch=e2&since=1&wait=0&envoy=envoy%201");
    link.response(&host, last_call(&host), answer(200, &page(2, "c", false)));
    assert_eq!(worker.round.get(), Some(2));
    let round = |agent| record(&host, agent).unwrap().round;
    assert_eq!((round("a"), round("b"), round("c")), (1, 2, 2));
}

#[test]
fn a_pause_is_in_force_from_the_first_page_that_tells_of_it_until_an_answer_without_it() {
    let (host, _, mut link) = linked();
    link.tick(&host);
    assert_eq!(host.metric(Metric::Paused), 0);
    let page = |more: bool, paused_for_ms: u64| {
        let agents = r#"[{"agent_id": "a", "active": true}]"#;
        format!(
            r#"{{"epoch": "e1", "rev": 5, "full": true, "more": {more}, "agents": {agents}, "paused_for_ms": {paused_for_ms}}}"#
        )
    };
    link.response(&host, last_call(&host), answer(200, &page(true, 60_000)));
    assert!(pause::is_in_force(&host), "while further pages of the agents are still to come");
    link.tick(&host);
    assert_eq!(host.metric(Metric::Paused), 1);
    link.response(&host, last_call(&host), answer(200, &page(false, 59_000)));
    link.response(&host, last_call(&host), answer(304, ""));
    assert!(pause::is_in_force(&host), "nothing has changed");
    link.response(&host, last_call(&host), answer(200, r#"{"epoch": "e1", "rev": 6}"#));
    assert!(!pause::is_in_force(&host), "an answer without it, also of an older sidecar");
    link.tick(&host);
    assert_eq!(host.metric(Metric::Paused), 0);
}

#[test]
fn agents_of_a_full_sync_that_was_abandoned_do_not_count_in_the_next_one() {
    let (host, worker, mut link) = synced();
    let page = |agent: &str, more| {
        format!(
            r#"{{"epoch": "e2", "rev": 1, "full": true, "more": {more}, "agents": [{{"agent_id": "{agent}", "active": true}}]}}"#
        )
    };
    link.response(&host, last_call(&host), answer(200, &page("b", true)));
    link.response(&host, last_call(&host), None);
    host.wait(10_000);
    link.tick(&host);
    link.response(&host, last_call(&host), answer(200, &page("c", false)));
    let in_force = worker.round.get().unwrap();
    let round = |agent| record(&host, agent).unwrap().round;
    assert!(round("b") < in_force, "the sidecar has deleted it in the meantime");
    assert_eq!(round("c"), in_force);
}

#[test]
fn a_full_sync_that_starts_over_in_another_database_forgets_what_the_first_one_named() {
    let page = |epoch: &str, rev: u64, agent: &str, more: bool| {
        let agents = format!(r#"[{{"agent_id": "{agent}", "active": true}}]"#);
        answer(
            200,
            &format!(r#"{{"epoch": "{epoch}", "rev": {rev}, "full": true, "more": {more}, "agents": {agents}}}"#),
        )
    };
    // Another database, the same one restored from a backup, and just the next page.
    for (epoch, rev, is_kept) in [("e3", 7, false), ("e2", 3, false), ("e2", 7, true)] {
        let (host, worker, mut link) = synced();
        link.response(&host, last_call(&host), page("e2", 5, "first", true));
        link.response(&host, last_call(&host), page(epoch, rev, "second", false));
        let in_force = worker.round.get().unwrap();
        let is_known = |agent| record(&host, agent).unwrap().round == in_force;
        assert_eq!((is_known("first"), is_known("second")), (is_kept, true), "{epoch}, revision {rev}");
    }
}

#[test]
fn a_page_of_a_full_sync_that_another_root_has_overtaken_is_not_applied() {
    let page = |agents: &str, more| {
        format!(r#"{{"epoch": "e2", "rev": 1, "full": true, "more": {more}, "agents": {agents}}}"#)
    };
    let (a, b) = (r#"[{"agent_id": "a", "active": true}]"#, r#"[{"agent_id": "b", "active": true}]"#);
    let (host, _, mut stalled) = synced();
    stalled.response(&host, last_call(&host), answer(200, &page(a, true)));
    let second_page = last_call(&host);
    host.wait(LEASE_MS + 1);
    let other_worker = worker();
    let mut other = Link::new(Rc::clone(&other_worker), &host);
    other.tick(&host);
    other.response(&host, last_call(&host), answer(200, &page(&format!("{}, {}", &a[..a.len() - 1], &b[1..]), false)));
    stalled.response(&host, second_page, answer(200, &page(b, true)));
    let in_force = other_worker.round.get().unwrap();
    for agent in ["a", "b"] {
        assert_eq!(record(&host, agent).unwrap().round, in_force, "{agent} is still known");
    }
}

#[test]
fn deleted_agents_are_forgotten_and_bad_ids_never_become_keys() {
    let (host, _, mut link) = synced();
    let news =
        r#"{"epoch": "e1", "rev": 6, "deleted": ["a", "x y"], "agents": [{"agent_id": "no good", "active": true}]}"#;
    link.response(&host, last_call(&host), answer(200, news));
    assert_eq!(record(&host, "a"), None);
    assert!(host.shared.borrow().keys().all(|key| !key.contains(' ')), "{:?}", host.shared.borrow().keys());
}

#[test]
fn observations_are_sent_once_per_interval() {
    let (host, worker, mut link) = linked();
    worker.observations.borrow_mut().count_request("a", 5);
    link.tick(&host);
    link.response(&host, last_call(&host), answer(200, "{}"));
    worker.observations.borrow_mut().count_request("a", 6);
    host.wait(500);
    link.tick(&host);
    let told = || calls(&host).iter().filter(|call| *call == "POST /v1/observations").count();
    assert_eq!(told(), 1);
    host.wait(500);
    link.tick(&host);
    assert_eq!(told(), 2);
}

#[test]
fn a_host_that_cannot_send_is_asked_again_later() {
    let host = Fake::new();
    host.unreachable.set(true);
    let mut link = Link::new(worker(), &host);
    link.tick(&host);
    host.unreachable.set(false);
    host.wait(1_300);
    link.tick(&host);
    assert_eq!(calls(&host).len(), 1);
}
