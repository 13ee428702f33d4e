//! Kill reports: none is lost, and each is accepted once.

use super::*;
use crate::agent::{Agent, store_policy};
use crate::link::outbox::put;
use crate::wire::{Action, KillReport};

fn report(kill_id: &str, agent_id: &str) -> KillReport {
    let report = serde_json::json!({
        "kill_id": kill_id, "agent_id": agent_id, "generation": 0, "action": "deactivate", "at_ms": 0, "score": 13.0,
        "threshold": 10.0, "window_size": 20, "similar_prompts": 0, "similar_responses": 0, "repeated_tool_calls": 0,
    });
    serde_json::from_value(report).unwrap()
}

pub(super) fn queue(host: &Fake, kill_id: &str, agent_id: &str) {
    let report = report::encode(host, &report(kill_id, agent_id));
    put(host, report.as_bytes(), report.as_bytes());
}

/// How often a report was sent.
pub(super) fn sends(host: &Fake) -> usize {
    calls(host).iter().filter(|call| *call == "POST /v1/kills").count()
}

/// The report that was sent last, and its call.
pub(super) fn last_sent(host: &Fake) -> (CallId, KillReport) {
    let calls = host.calls.borrow();
    let index = calls.iter().rposition(|call| call.path == "/v1/kills").unwrap();
    (CallId(index as u32 + 1), serde_json::from_slice(&calls[index].body).unwrap())
}

fn receipt(kill_id: &str) -> Option<Incoming> {
    answer(200, &format!(r#"{{"outcome": "applied", "kill_id": "{kill_id}"}}"#))
}

/// Answers a report as the sidecar does.
pub(super) fn accept(host: &Fake, link: &mut Link) -> String {
    let (call, report) = last_sent(host);
    link.response(host, call, receipt(&report.kill_id));
    report.kill_id
}

#[test]
fn a_report_is_sent_until_the_sidecar_accepts_it() {
    let (host, _, mut link) = linked();
    queue(&host, "k1", "a");
    link.tick(&host);
    assert_eq!((sends(&host), host.metric(Metric::OutboxDepth)), (1, 1));
    link.response(&host, last_sent(&host).0, None);
    host.wait(10_000);
    link.tick(&host);
    assert_eq!(sends(&host), 2, "again after a pause");
    accept(&host, &mut link);
    host.wait(60_000);
    link.tick(&host);
    assert_eq!((sends(&host), host.metric(Metric::OutboxDepth)), (2, 0));
}

#[test]
fn two_thousand_reports_outlive_the_workers_that_made_them_and_cost_an_idle_tick_nothing() {
    const KILLS: usize = 2_000;
    let (host, _, mut link) = linked();
    for number in 0..KILLS {
        queue(&host, &format!("k{number}"), &format!("agent-{number}"));
    }
    link.tick(&host);
    link.response(&host, last_sent(&host).0, None);
    assert_eq!(host.metric(Metric::OutboxDepth), KILLS as u64);
    host.accesses.set((0, 0));
    host.wait(TICK_MS);
    link.tick(&host);
    let (reads, _) = host.accesses.get();
    assert!(reads <= 10, "{reads} reads");

    drop(link);
    let mut link = Link::new(worker(), &host);
    host.wait(LEASE_MS + 10_000);
    link.tick(&host);
    answer_poll(&host, &mut link, answer(200, PAGE));
    let mut accepted = Vec::new();
    while link.sender.is_sending() {
        accepted.push(accept(&host, &mut link));
    }
    accepted.sort();
    accepted.dedup();
    assert_eq!((accepted.len(), host.metric(Metric::OutboxDepth)), (KILLS, 0));
}

#[test]
fn reports_of_a_full_bucket_lose_their_evidence_but_not_more() {
    let host = Fake::new();
    for number in 0..50 {
        let brief = report(&format!("k{number}"), "a");
        let full = KillReport { excerpt: Some("x".repeat(3_000)), ..brief.clone() };
        put(&host, report::encode(&host, &full).as_bytes(), report::encode(&host, &brief).as_bytes());
    }
    let shared = host.shared.borrow();
    let buckets: Vec<&Vec<u8>> =
        shared.iter().filter(|(key, _)| key.starts_with("aks/4/out/")).map(|(_, (bytes, _))| bytes).collect();
    let [bucket] = buckets.try_into().unwrap();
    let reports: Vec<KillReport> =
        bucket.split(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect();
    assert_eq!(reports.len(), 50);
    let with_evidence = reports.iter().filter(|report| report.excerpt.is_some()).count();
    assert!((10..30).contains(&with_evidence), "{with_evidence}");
}

#[test]
fn one_agent_takes_only_so_much_room() {
    let (host, _, mut link) = linked();
    for number in 0..1_000 {
        queue(&host, &format!("k{number}"), "chatty");
    }
    link.tick(&host);
    assert_eq!(host.metric(Metric::OutboxDepth), 64);
    assert_eq!(last_sent(&host).1.kill_id, "k936", "the latest ones are kept");
}

fn queue_with(host: &Fake, kill_id: &str, agent_id: &str, action: Action) {
    // So long that dozens of them fill a bucket.
    let report = report::encode(host, &KillReport { action, reason: "x".repeat(2_000), ..report(kill_id, agent_id) });
    put(host, report.as_bytes(), report.as_bytes());
}

/// Returns how many reports with this action wait, in all buckets.
fn waiting(host: &Fake, action: Action) -> usize {
    let shared = host.shared.borrow();
    let buckets = shared.iter().filter(|(key, _)| key.starts_with("aks/4/out/"));
    let lines = buckets.flat_map(|(_, (bytes, _))| bytes.split(|byte| *byte == b'\n'));
    let reports = lines.filter(|line| !line.is_empty()).map(|line| serde_json::from_slice::<KillReport>(line).unwrap());
    reports.filter(|report| report.action == action).count()
}

/// Agents whose reports share one bucket: the hash of `Aa` is that of `BB`.
fn neighbours() -> impl Iterator<Item = String> {
    (0..64).map(|number| (0..6).map(|bit| if number >> bit & 1 == 0 { "Aa" } else { "BB" }).collect())
}

#[test]
fn reports_of_loops_that_were_only_observed_leave_room_for_a_kill_and_so_do_blocks() {
    let host = Fake::new();
    let dropped = || host.metric(Metric::ReportsDropped) as usize;
    let lines = || host.lines().iter().filter(|line| line.contains("a kill report is dropped")).count();
    for (number, agent) in (0..3).flat_map(|number| neighbours().map(move |agent| (number, agent))) {
        queue_with(&host, &format!("observed-{agent}-{number}"), &agent, Action::Observe);
    }
    let observed = waiting(&host, Action::Observe);
    assert!((100..3 * 64).contains(&observed), "the bucket is full: {observed}");
    assert_eq!((dropped(), lines()), (3 * 64 - observed, 3 * 64 - observed), "the latest ones found no room");

    for agent in neighbours().take(32) {
        queue_with(&host, &format!("block-{agent}"), &agent, Action::Block);
        queue_with(&host, &format!("kill-{agent}"), &agent, Action::Deactivate);
    }
    let counts = || [Action::Observe, Action::Block, Action::Deactivate].map(|action| waiting(&host, action));
    assert!(counts()[0] > 0 && counts()[1..] == [32, 32], "{:?}", counts());
    assert!(
        !host.lines().iter().any(|line| line.contains("dropped") && line.contains("block-")),
        "observed ones first"
    );

    // Kills drive out everything else, and only then one of them finds no room.
    for (number, agent) in (0..3).flat_map(|number| neighbours().map(move |agent| (number, agent))) {
        queue_with(&host, &format!("kill-{agent}-{number}"), &agent, Action::Deactivate);
    }
    let [0, 0, kills] = counts() else { panic!("{:?}", counts()) };
    queue_with(&host, "one-more", "AaAaAaAaAaAa", Action::Deactivate);
    queue_with(&host, "only-observed", "AaAaAaAaAaAa", Action::Observe);
    assert_eq!(counts(), [0, 0, kills]);
    let last = host.lines().pop().unwrap();
    assert!(last.contains("only-observed"), "{last}");
    assert_eq!(dropped(), lines());
    assert_eq!(dropped() + kills, 2 * 3 * 64 + 2 * 32 + 2, "each report waits or was counted");
}

#[test]
fn the_kill_of_an_agent_is_not_dropped_for_loops_of_it_that_are_only_observed_afterwards() {
    let host = Fake::new();
    queue(&host, "kill", "a");
    for number in 0..200 {
        queue_with(&host, &format!("observed-{number}"), "a", Action::Observe);
    }
    assert_eq!((waiting(&host, Action::Deactivate), waiting(&host, Action::Observe)), (1, 63));
    assert_eq!(host.metric(Metric::ReportsDropped), 200 - 63);
}

#[test]
fn a_new_report_costs_one_read_of_its_bucket_although_nothing_can_be_sent() {
    let (host, _, mut link) = linked();
    queue(&host, "k1", "a");
    link.tick(&host);
    for (number, state) in ["while a report is being sent", "while the sidecar does not answer"].iter().enumerate() {
        host.wait(TICK_MS);
        host.accesses.set((0, 0));
        link.tick(&host);
        let (idle, _) = host.accesses.get();
        queue(&host, &format!("new-{number}"), "b");
        host.accesses.set((0, 0));
        link.tick(&host);
        let (reads, _) = host.accesses.get();
        assert_eq!(reads, idle + 1, "{state}");
        assert_eq!(host.metric(Metric::OutboxDepth), number as u64 + 2, "{state}");
        if link.sender.is_sending() {
            link.response(&host, last_sent(&host).0, None);
        }
    }
}

#[test]
fn a_root_that_has_lost_the_lease_sends_and_polls_no_more() {
    for is_receipt in [true, false] {
        let (host, _, mut old) = linked();
        old.tick(&host);
        ["k1", "k2", "k3"].iter().for_each(|kill_id| queue(&host, kill_id, kill_id));
        host.wait(YOUNGER_MS + 1);
        old.tick(&host);
        let (sent, report) = last_sent(&host);
        let poll = CallId(1);
        let mut new = Link::new(worker(), &host);
        new.tick(&host);
        let made = calls(&host).len();
        old.response(&host, sent, receipt(&report.kill_id).filter(|_| is_receipt));
        old.response(&host, poll, answer(200, PAGE));
        host.wait(TICK_MS);
        old.tick(&host);
        assert_eq!(calls(&host).len(), made, "the answers came to a root that does not speak for this Envoy");
        // The new one goes on, and what was accepted is not sent again.
        let mut accepted: Vec<String> = Vec::new();
        for _ in 0..400 {
            new.tick(&host);
            while new.sender.is_sending() {
                accepted.push(accept(&host, &mut new));
            }
            host.wait(TICK_MS);
        }
        accepted.sort();
        accepted.dedup();
        assert_eq!((accepted.len(), host.metric(Metric::OutboxDepth)), (3, 0), "{is_receipt}");
    }
}

#[test]
fn only_a_receipt_for_the_same_report_acknowledges_it() {
    let answers = [
        (answer(200, "{}"), "(its answer is not the receipt, status 200)"),
        (receipt("another"), "(its answer is not the receipt, status 200)"),
        (answer(204, ""), "(its answer is not the receipt, status 204)"),
        (answer(422, r#"{"kill_id": "k1"}"#), "refuses a kill report (422)"),
        (answer(404, ""), "refuses a kill report (404)"),
        (answer(401, ""), "waits for the sidecar (an error, status 401)"),
        (answer(503, ""), "waits for the sidecar (an error, status 503)"),
        (None, "waits for the sidecar (no answer, status 0)"),
    ];
    for (answer, line) in answers {
        let (host, _, mut link) = linked();
        queue(&host, "k1", "a");
        link.tick(&host);
        for _ in 0..3 {
            link.response(&host, last_sent(&host).0, answer.clone());
            let before = sends(&host);
            host.wait(900);
            link.tick(&host);
            assert_eq!(sends(&host), before, "{line}: not at once");
            host.wait(10_000);
            link.tick(&host);
            assert_eq!(sends(&host), before + 1, "{line}: tried again");
        }
        let lines: Vec<String> = host.lines().into_iter().filter(|logged| logged.contains("kill report")).collect();
        assert!(lines.len() == 1 && lines[0].contains(line), "{line}: {lines:?}");
        accept(&host, &mut link);
        assert_eq!(host.metric(Metric::OutboxDepth), 0, "{line}");
    }
}

/// A link whose Envoy has killed agent `a`, and whose sidecar has accepted the report.
fn killed() -> (Fake, Link) {
    let (host, _, link) = synced();
    let agent = Agent::read(&host, "a", 0).unwrap();
    let details = Details { report: report::encode(&host, &report("k1", "a")), ..Details::default() };
    host.overwrite(&agent_key("a"), agent.record.killed().encode(&details));
    (host, link)
}

/// A sync that says that agent `a` is active at this generation.
fn active_at(generation: u64) -> Option<Incoming> {
    let agent = format!(r#"{{"agent_id": "a", "active": true, "generation": {generation}}}"#);
    answer(200, &format!(r#"{{"epoch": "e1", "rev": 6, "agents": [{agent}]}}"#))
}

/// Answers the poll that is open.
fn answer_poll(host: &Fake, link: &mut Link, answer: Option<Incoming>) {
    let poll = host.calls.borrow().iter().rposition(|call| call.path.starts_with("/v1/sync")).unwrap();
    link.response(host, CallId(poll as u32 + 1), answer);
    host.wait(TICK_MS);
    link.tick(host);
}

#[test]
fn a_kill_that_the_sidecar_does_not_know_is_reported_again_but_not_all_the_time() {
    let (host, mut link) = killed();
    answer_poll(&host, &mut link, active_at(3));
    assert_eq!(last_sent(&host).1.kill_id, "k1", "the sidecar counts it once");
    assert!(record(&host, "a").unwrap().is_killed());
    for _ in 0..20 {
        // It is waiting already.
        answer_poll(&host, &mut link, active_at(3));
    }
    assert_eq!(host.metric(Metric::OutboxDepth), 1);
    accept(&host, &mut link);
    for _ in 0..20 {
        // A sidecar that accepts the report and takes no notice of it is not told again for a minute.
        answer_poll(&host, &mut link, active_at(3));
    }
    assert_eq!(sends(&host), 1);
    host.wait(60_000);
    answer_poll(&host, &mut link, active_at(3));
    assert_eq!(sends(&host), 2);
}

#[test]
fn a_kill_outlives_a_database_that_was_restored_from_an_older_backup() {
    for active in [true, false] {
        let (host, mut link) = killed();
        let policy =
            format!(r#"{{"agent_id": "a", "active": {active}, "kill_switch_enabled": true, "generation": 2}}"#);
        let body = format!(r#"{{"epoch": "e1", "rev": 4, "full": true, "more": false, "agents": [{policy}]}}"#);
        answer_poll(&host, &mut link, answer(200, &body));
        let record = record(&host, "a").unwrap();
        assert!(record.is_killed(), "active: {active}");
        assert_eq!(record.generation, 3, "an activation at generation 3 would not be noticed otherwise");
        // Also if the agent is inactive for another reason: only the report tells the sidecar of the higher generation.
        assert_eq!((sends(&host), last_sent(&host).1.kill_id.as_str()), (1, "k1"), "active: {active}");
        answer_poll(&host, &mut link, active_at(4));
        assert!(self::record(&host, "a").unwrap().active, "an activation ends it");
    }
}

#[test]
fn a_kill_that_the_sidecar_knows_is_not_reported_again() {
    let (host, mut link) = killed();
    let agent = r#"{"agent_id": "a", "active": false, "deactivated_by": "kill_switch", "generation": 3}"#;
    answer_poll(&host, &mut link, answer(200, &format!(r#"{{"epoch": "e1", "rev": 6, "agents": [{agent}]}}"#)));
    assert_eq!((sends(&host), record(&host, "a").unwrap().is_killed()), (0, true));
}

#[test]
fn an_activation_ends_a_kill_that_the_sidecar_does_not_know_without_a_report() {
    let (host, mut link) = killed();
    answer_poll(&host, &mut link, active_at(4));
    assert!(record(&host, "a").unwrap().active);
    answer_poll(&host, &mut link, active_at(4));
    assert_eq!(sends(&host), 0);
}

#[test]
fn a_kill_by_another_envoy_is_not_reported_again() {
    let (host, _, _) = synced();
    let policy = |active| {
        let json =
            format!(r#"{{"agent_id": "a", "active": {active}, "deactivated_by": "kill_switch", "generation": 3}}"#);
        serde_json::from_str(&json).unwrap()
    };
    assert_eq!(store_policy(&host, &policy(false), 1), Some(None));
    assert_eq!(store_policy(&host, &policy(true), 1), Some(None));
}
