//! Clocks that are set, and shared data that other workers write all the time.

use super::*;
use crate::wire::DeactivatedBy;

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_block_lasts_as_long_as_the_policy_says_when_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let bench = Bench::new("");
        bench.policy(|policy| (policy.action, policy.retry_after_seconds) = (Action::Block, 5));
        while bench.call(QUESTION, ANSWER) {}
        bench.host.set_clock(by_ms);
        bench.host.wait(4_999);
        assert!(!bench.call(QUESTION, ANSWER), "{by_ms}");
        bench.host.wait(1);
        assert!(bench.call(QUESTION, ANSWER), "{by_ms}");
    }
}

#[test]
fn the_stop_of_a_conversation_lasts_as_long_as_the_policy_says_when_the_clock_is_set() {
    for by_ms in [-HOUR_MS, HOUR_MS] {
        let bench = Bench::new(r#", "session_header": "x-session""#);
        bench.policy(|policy| (policy.scope, policy.session_stop_seconds) = (Scope::Session, 5));
        let call = || {
            let mut stream = bench.begin(&[("x-session", "s1")], false).0;
            bench.body(&mut stream, QUESTION);
            let is_refused = bench.host.replies.borrow_mut().pop().is_some();
            if !is_refused {
                bench.answer(&mut stream, 200, ANSWER);
            }
            !is_refused
        };
        while call() {}
        bench.host.set_clock(by_ms);
        bench.host.wait(4_999);
        assert!(!call(), "{by_ms}");
        bench.host.wait(1);
        assert!(call(), "{by_ms}");
    }
}

/// Writes the record before every write of this worker, so that no compare-and-swap succeeds.
fn interfere(host: &Fake) {
    let bytes = host.get(&agent_key("a")).bytes;
    host.overwrite(&agent_key("a"), bytes);
    *host.before_set.borrow_mut() = Some(Box::new(interfere));
}

#[test]
fn a_loop_that_cannot_be_recorded_is_forwarded_and_counted_and_nobody_is_told_that_the_agent_is_inactive() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    let mut stream = bench.held(&[]);
    // The call itself is scored. The write of the kill is what fails.
    *bench.host.before_set.borrow_mut() = Some(Box::new(|host| {
        *host.before_set.borrow_mut() = Some(Box::new(interfere));
    }));
    assert_eq!(bench.body(&mut stream, QUESTION), Flow::Continue);
    bench.host.before_set.borrow_mut().take();
    assert!(bench.host.replies.borrow().is_empty() && bench.reports().is_empty());
    assert_eq!((bench.counted(Outcome::Contended), bench.host.metric(Metric::Kills)), (1, 0));
    stream.closed(&bench.host);
    assert!(!bench.call(QUESTION, ANSWER), "the next call is judged again");
    assert_eq!((bench.reports().len(), bench.host.metric(Metric::Kills)), (1, 1));
}

#[test]
fn the_record_of_a_killed_agent_keeps_a_report_with_the_same_id_as_the_one_that_waits() {
    let bench = Bench::new(r#", "evidence": "excerpt""#);
    while bench.call(QUESTION, ANSWER) {}
    let bytes = bench.host.get(&agent_key("a")).bytes;
    let value = Value::decode(&bytes).unwrap();
    assert_eq!(value.record.deactivated_by, Some(DeactivatedBy::KillSwitch));
    let kept: KillReport = serde_json::from_str(&value.details().report).unwrap();
    let [waiting] = bench.reports().try_into().unwrap();
    assert_eq!((&kept.kill_id, kept.score, kept.signals), (&waiting.kill_id, waiting.score, waiting.signals));
    assert_eq!((kept.excerpt, kept.matches.len(), waiting.matches.len()), (None, 0, 5), "no text, and not much of it");
}
