//! A silent partition: calls get no answer, and fail when their time is up.

use super::failing::{Fleet, healthy};
use super::*;
use crate::link::outbox::put;

/// The time that is documented.
const PROMISED_MS: u64 = 10_000;

/// Simulates a partition, with a kill this long after its beginning, if any. Returns how long after its end the first call of
/// this kind is made: a poll brings the changes of policies, and a report records the kill.
fn called_after(path: &str, begins_ms: u64, lasts_ms: u64, mut kill_ms: Option<u64>) -> u64 {
    let mut fleet = Fleet::new();
    let begins_ms = fleet.host.steady_ms() + begins_ms;
    let ends_ms = begins_ms + lasts_ms;
    let mut made_ms: Vec<u64> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    loop {
        let now_ms = fleet.host.steady_ms();
        if kill_ms.take_if(|kill_ms| now_ms >= begins_ms + *kill_ms).is_some() {
            let report = br#"{"kill_id":"k1","agent_id":"a"}"#;
            put(&fleet.host, report, report);
        }
        fleet.tick();
        let calls = fleet.host.calls.borrow().clone();
        open.extend(made_ms.len()..calls.len());
        made_ms.resize(calls.len(), now_ms);
        let now_ms = fleet.host.steady_ms();
        for index in std::mem::take(&mut open) {
            let (call, made_ms) = (&calls[index], made_ms[index]);
            let is_poll = call.path.starts_with("/v1/sync");
            let is_lost = made_ms < ends_ms && now_ms >= begins_ms;
            let is_held = is_poll && call.path.contains("wait=4") && !call.path.contains("since=0");
            if call.path.starts_with(path) && made_ms >= ends_ms {
                return now_ms - ends_ms;
            } else if is_lost && now_ms < made_ms + call.timeout_ms || !is_lost && is_held && now_ms < made_ms + 4_000 {
                open.push(index);
            } else if is_lost {
                fleet.respond(CallId(index as u32 + 1), &None);
            } else {
                let answer = if is_held { answer(304, "") } else { healthy(&call.path) };
                fleet.respond(CallId(index as u32 + 1), &answer);
            }
        }
    }
}

#[test]
fn a_change_arrives_within_the_promised_time_after_any_partition() {
    let mut longest = (0, 0, 0);
    for begins_ms in (5_000..9_500).step_by(250) {
        for lasts_ms in [50, 500, 3_000, 7_900, 8_100, 9_300, 12_000, 15_000, 25_000] {
            let kill_ms = (lasts_ms % 1_000 == 0).then_some(0);
            let after_ms = called_after("/v1/sync", begins_ms, lasts_ms, kill_ms);
            longest = longest.max((after_ms, begins_ms, lasts_ms));
        }
    }
    println!("the latest change came after {longest:?} (ms after the end, begin, length)");
    assert!(longest.0 < PROMISED_MS, "{longest:?}");
}

#[test]
fn a_kill_is_recorded_within_the_promised_time_after_any_partition() {
    let mut longest = (0, 0, 0);
    for lasts_ms in [500, 3_000, 5_000, 7_900, 12_000, 15_000, 25_000] {
        for kill_ms in (0..lasts_ms).step_by(450) {
            let after_ms = called_after("/v1/kills", 6_000, lasts_ms, Some(kill_ms));
            longest = longest.max((after_ms, kill_ms, lasts_ms));
        }
    }
    println!("the latest report came after {longest:?} (ms after the end, time of the kill, length)");
    assert!(longest.0 < PROMISED_MS, "{longest:?}");
}

#[test]
fn a_kill_is_recorded_within_the_promised_time_although_open_connections_died_unnoticed() {
    // A worker has at most three connections to the sidecar that are idle: those on which it last sent a report,
    // observations and calls. Each attempt may meet one of them.
    for dead in 0..=3 {
        let (host, _, mut link) = synced();
        let began_ms = host.steady_ms();
        let report = br#"{"kill_id":"k1","agent_id":"a"}"#;
        put(&host, report, report);
        for _ in 0..dead {
            while !link.sender.is_sending() {
                host.wait(TICK_MS);
                link.tick(&host);
            }
            host.wait(host.calls.borrow()[last_call(&host).0 as usize - 1].timeout_ms);
            link.response(&host, last_call(&host), None);
        }
        while !link.sender.is_sending() {
            host.wait(TICK_MS);
            link.tick(&host);
        }
        let after_ms = host.steady_ms() - began_ms;
        println!("{dead} dead connections: the attempt that succeeds begins after {after_ms} ms");
        assert!(after_ms < PROMISED_MS, "{dead} dead connections: {after_ms} ms");
    }
}

#[test]
fn a_sidecar_that_takes_three_seconds_for_a_report_gets_the_time() {
    let (host, _, mut link) = synced();
    let slow_ms = 3_000;
    for (number, most) in [(1, 5), (2, 1)] {
        let report = format!(r#"{{"kill_id":"k{number}","agent_id":"a"}}"#);
        put(&host, report.as_bytes(), report.as_bytes());
        let mut attempts = 0;
        loop {
            while !link.sender.is_sending() {
                host.wait(TICK_MS);
                link.tick(&host);
            }
            attempts += 1;
            let (call, timeout_ms) =
                (last_call(&host), host.calls.borrow()[last_call(&host).0 as usize - 1].timeout_ms);
            host.wait(timeout_ms.min(slow_ms));
            if timeout_ms > slow_ms {
                link.response(&host, call, answer(200, &report));
                break;
            }
            link.response(&host, call, None);
        }
        assert_eq!(attempts, most, "report {number}: the next one knows that the sidecar is slow");
    }
}
