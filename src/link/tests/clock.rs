//! A clock that is set to another time stops nothing.

use super::outbox::queue;
use super::*;
use crate::wire::KillReport;

const HOUR_MS: i64 = 3_600_000;

#[test]
fn observations_go_on_when_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let (host, worker, mut link) = linked();
        let observations = || calls(&host).iter().filter(|call| *call == "POST /v1/observations").count();
        for _ in 0..2 {
            worker.observations.borrow_mut().count_request("a", 5);
            link.tick(&host);
            link.response(&host, last_call(&host), answer(200, "{}"));
            host.set_clock(by_ms);
            host.wait(1_000);
        }
        assert_eq!(observations(), 2, "{by_ms}");
    }
}

#[test]
fn the_lease_of_a_dead_holder_is_taken_over_when_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let host = Fake::new();
        let (mut dead, mut other) = (Link::new(worker(), &host), Link::new(worker(), &host));
        dead.tick(&host);
        host.set_clock(by_ms);
        other.tick(&host);
        assert_eq!(calls(&host).len(), 1, "{by_ms}: the holder may be alive");
        host.wait(LEASE_MS + 1);
        other.tick(&host);
        assert_eq!(calls(&host).len(), 2, "{by_ms}");
    }
}

#[test]
fn a_sidecar_that_does_not_answer_is_called_again_when_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let (host, _, mut link) = synced();
        link.response(&host, last_call(&host), None);
        host.set_clock(by_ms);
        let before = calls(&host).len();
        link.tick(&host);
        assert_eq!(calls(&host).len(), before, "{by_ms}: not at once");
        host.wait(1_300);
        link.tick(&host);
        assert_eq!(calls(&host).len(), before + 1, "{by_ms}");
    }
}

#[test]
fn the_age_of_the_last_answer_is_right_when_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let (host, _, mut link) = synced();
        host.set_clock(by_ms);
        host.wait(30_000);
        link.tick(&host);
        assert_eq!(host.metric(Metric::SyncAgeSeconds), 30, "{by_ms}");
    }
}

#[test]
fn a_report_says_how_long_it_has_waited_although_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let (host, _, mut link) = linked();
        queue(&host, "k1", "a");
        host.set_clock(by_ms);
        host.wait(30_000);
        link.tick(&host);
        let reports: Vec<_> = host.calls.borrow().iter().filter(|call| call.path == "/v1/kills").cloned().collect();
        let report: KillReport = serde_json::from_slice(&reports[0].body).unwrap();
        assert_eq!((report.kill_id.as_str(), report.waited_ms), ("k1", Some(30_000)), "{by_ms}");
        assert!(!String::from_utf8_lossy(&reports[0].body).contains("steady_ms"), "that clock means nothing elsewhere");
    }
}
