//! While the fleet is paused, loops are reported and nothing is stopped.

use super::*;
use crate::pause;

const HOUR_MS: u64 = 3_600_000;

/// A bench whose fleet was paused for an hour just now.
fn paused() -> Bench {
    let bench = Bench::new("");
    pause::store(&bench.host, HOUR_MS);
    bench
}

#[test]
fn a_loop_is_forwarded_and_reported_once_as_one_that_the_pause_let_through() {
    for action in [Action::Deactivate, Action::Block] {
        let bench = paused();
        bench.policy(|policy| policy.action = action);
        let forwarded: Vec<bool> = (0..8).map(|_| bench.call(QUESTION, ANSWER)).collect();
        assert_eq!(forwarded, [true; 8], "{action:?}");
        let [report] = bench.reports().try_into().unwrap();
        assert_eq!((report.action, report.paused), (Action::Observe, true));
        assert_eq!(report.score, 13.0);
        assert_eq!((bench.host.metric(Metric::WouldKills), bench.host.metric(Metric::Kills)), (1, 0));
    }
}

#[test]
fn a_conversation_is_not_stopped_either() {
    let bench = paused();
    bench.policy(|policy| policy.scope = Scope::Session);
    for _ in 0..8 {
        let mut stream = bench.held(&[("x-session-id", "chat-1")]);
        assert_eq!(bench.body(&mut stream, QUESTION), Flow::Continue);
        bench.answer(&mut stream, 200, ANSWER);
    }
    let [report] = bench.reports().try_into().unwrap();
    assert_eq!((report.action, report.paused, report.scope), (Action::Observe, true, Scope::Session));
}

#[test]
fn loops_are_stopped_again_when_the_pause_is_over() {
    let bench = paused();
    bench.host.wait(HOUR_MS);
    let forwarded: Vec<bool> = (0..6).map(|_| bench.call(QUESTION, ANSWER)).collect();
    assert_eq!(forwarded, [true, true, true, true, true, false], "its time is up");
    let [report] = bench.reports().try_into().unwrap();
    assert_eq!((report.action, report.paused), (Action::Deactivate, false));
}

#[test]
fn an_agent_that_is_inactive_stays_inactive() {
    let bench = paused();
    bench.policy(|policy| policy.active = false);
    assert!(!bench.call(QUESTION, ANSWER));
}

#[test]
fn an_agent_that_only_observes_is_not_reported_as_paused() {
    let bench = paused();
    bench.policy(|policy| policy.action = Action::Observe);
    (0..6).for_each(|_| assert!(bench.call(QUESTION, ANSWER)));
    assert!(!bench.reports()[0].paused);
}

#[test]
fn the_pause_is_not_read_while_nothing_loops() {
    let bench = paused();
    bench.call(QUESTION, ANSWER);
    let (before, _) = bench.host.accesses.get();
    bench.call(QUESTION, ANSWER);
    let (with_pause, _) = bench.host.accesses.get();
    let plain = Bench::new("");
    plain.call(QUESTION, ANSWER);
    let (start, _) = plain.host.accesses.get();
    plain.call(QUESTION, ANSWER);
    assert_eq!(with_pause - before, plain.host.accesses.get().0 - start);
}
