//! Reports that the sidecar refuses do not hold up anything else.

use super::outbox::{accept, last_sent, queue, sends};
use super::*;

/// Lets time pass while the sidecar refuses the reports whose ids begin with `bad` and accepts all others. Returns the ids of
/// those that it accepted.
fn run(host: &Fake, link: &mut Link, ms: u64, status: u16) -> Vec<String> {
    let mut accepted = Vec::new();
    for _ in 0..ms / TICK_MS {
        link.tick(host);
        while link.sender.is_sending() {
            let (call, report) = last_sent(host);
            if report.kill_id.starts_with("bad") {
                link.response(host, call, answer(status, "{}"));
            } else {
                accepted.push(accept(host, link));
            }
        }
        host.wait(TICK_MS);
    }
    accepted.sort();
    accepted
}

#[test]
fn a_report_that_is_refused_for_good_does_not_hold_up_the_others() {
    let (host, _, mut link) = linked();
    for (kill_id, agent) in [("bad", "a"), ("good-1", "a"), ("good-2", "b"), ("good-3", "c")] {
        queue(&host, kill_id, agent);
    }
    assert_eq!(run(&host, &mut link, 60_000, 422), ["good-1", "good-2", "good-3"]);
    assert_eq!(host.metric(Metric::OutboxDepth), 1, "it is not dropped");
    println!("{} attempts in a minute, of which three were accepted", sends(&host));
    assert!(sends(&host) < 20, "{} attempts in a minute", sends(&host));
    queue(&host, "later", "a");
    assert_eq!(run(&host, &mut link, 2_000, 422), ["later"], "although the refused one is tried seldom by now");
}

#[test]
fn new_reports_do_not_wait_for_thirty_that_are_refused() {
    for status in [422, 500] {
        let (host, _, mut link) = linked();
        (0..30).for_each(|number| queue(&host, &format!("bad-{number}"), &format!("bad-{number}")));
        // New reports come while the others are tried for the first time, and later, some of them into the same bucket.
        for (number, after_ms) in [0, 500, 5_000, 10_000, 30_000].into_iter().enumerate() {
            run(&host, &mut link, after_ms, status);
            let kill_id = format!("good-{number}");
            queue(&host, &kill_id, &format!("bad-{number}"));
            assert_eq!(run(&host, &mut link, 2_000, status), [kill_id], "{status}, after {after_ms} ms");
        }
        let before = sends(&host);
        run(&host, &mut link, 60_000, status);
        let attempts = sends(&host) - before;
        assert!((10..20).contains(&attempts), "{status}: {attempts} attempts in a minute, all of them together");
        assert_eq!(host.metric(Metric::OutboxDepth), 30, "{status}: none is dropped");
    }
}

#[test]
fn reports_that_were_refused_are_accepted_soon_after_the_cause_is_removed() {
    let (host, _, mut link) = linked();
    (0..30).for_each(|number| queue(&host, &format!("bad-{number}"), &format!("agent-{number}")));
    run(&host, &mut link, 60_000, 500);
    // Another root, as after a restart of a worker, knows which reports were refused.
    let mut link = Link::new(worker(), &host);
    host.wait(LEASE_MS + 10_000);
    let mut accepted = 0;
    for _ in 0..10_000 / TICK_MS {
        link.tick(&host);
        while link.sender.is_sending() {
            accept(&host, &mut link);
            accepted += 1;
        }
        host.wait(TICK_MS);
    }
    assert_eq!((accepted, host.metric(Metric::OutboxDepth)), (30, 0));
}

#[test]
fn polls_go_on_while_a_sidecar_that_was_away_refuses_many_reports() {
    let (host, _, mut link) = synced();
    (0..300).for_each(|number| queue(&host, &format!("bad-{number}"), &format!("agent-{number}")));
    let poll = last_call(&host);
    link.response(&host, poll, None);
    let polls = || calls(&host).iter().filter(|call| call.starts_with("GET")).count();
    let before = polls();
    run(&host, &mut link, 5_000, 500);
    assert!(polls() > before, "a report does not take every opportunity");
}

#[test]
fn a_report_is_sent_at_once_when_polls_are_answered_again() {
    let (host, _, mut link) = synced();
    queue(&host, "k1", "a");
    // The pauses have grown after so long a time. Then the next poll is answered.
    let (mut failed, mut is_over) = (0, false);
    while !is_over {
        host.wait(TICK_MS);
        link.tick(&host);
        is_over = failed > 20 && calls(&host).last().unwrap().starts_with("GET") && calls(&host).len() == failed + 1;
        while !is_over && failed < calls(&host).len() {
            failed += 1;
            link.response(&host, CallId(failed as u32), None);
        }
    }
    let before = sends(&host);
    link.response(&host, last_call(&host), answer(304, ""));
    assert_eq!(sends(&host), before + 1);
}
