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

#[test]
fn a_loop_is_detected_although_the_clock_is_set_between_its_calls() {
    for by_ms in [-48 * HOUR_MS, 48 * HOUR_MS] {
        let bench = Bench::new("");
        let mut forwarded = 0;
        while bench.call(QUESTION, ANSWER) {
            forwarded += 1;
            bench.host.set_clock(by_ms);
            bench.host.wait(1_000);
        }
        assert_eq!(forwarded, 5, "{by_ms}");
        let [report] = bench.reports().try_into().unwrap();
        assert_eq!(
            report.matches.iter().map(|past| past.age_ms).collect::<Vec<_>>(),
            [1_000, 2_000, 3_000, 4_000, 5_000]
        );
        assert_eq!(report.at_ms, bench.host.now_ms(), "people see the time of the clock");
    }
}

#[test]
fn a_run_ends_after_the_same_silence_when_the_clock_is_set() {
    for by_ms in [-90_000, 90_000] {
        let bench = Bench::new("");
        bench.policy(|policy| policy.idle_reset_seconds = 60);
        for _ in 0..5 {
            bench.call(QUESTION, ANSWER);
        }
        bench.host.wait(90_000);
        bench.host.set_clock(by_ms);
        assert!(bench.call(QUESTION, ANSWER), "{by_ms}: nothing happened for longer than a minute");
    }
}

#[test]
fn the_times_of_scores_are_those_of_the_clock() {
    let bench = Bench::new("");
    let mut link = crate::link::Link::new(Rc::clone(&bench.worker), &bench.host);
    bench.host.set_clock(HOUR_MS);
    link.tick(&bench.host);
    bench.host.wait(30);
    bench.call(QUESTION, ANSWER);
    let [agent] = bench.worker.observations.borrow_mut().take().try_into().unwrap();
    assert_eq!(agent.scores[0].at_ms, bench.host.now_ms());
}

/// Lets this many writes of the record fail, from the one after the next on.
fn interfere_after_next(host: &Fake, times: usize) {
    fn fail(host: &Fake, times: usize) {
        if times > 0 {
            host.overwrite(&agent_key("a"), host.get(&agent_key("a")).bytes);
            *host.before_set.borrow_mut() = Some(Box::new(move |host| fail(host, times - 1)));
        }
    }
    // The call itself is scored. The write of the kill is what fails.
    *host.before_set.borrow_mut() = Some(Box::new(move |host| {
        *host.before_set.borrow_mut() = Some(Box::new(move |host| fail(host, times)));
    }));
}

#[test]
fn a_kill_is_written_although_other_workers_write_the_record_many_times() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    let mut stream = bench.held(&[]);
    interfere_after_next(&bench.host, 1_000);
    bench.body(&mut stream, QUESTION);
    assert_eq!(bench.host.replies.borrow().len(), 1, "refused");
    assert_eq!((bench.reports().len(), bench.host.metric(Metric::Kills)), (1, 1));
    assert_eq!(bench.counted(Outcome::Contended), 0);
}

#[test]
fn a_loop_that_cannot_be_recorded_is_forwarded_and_counted_and_nobody_is_told_that_the_agent_is_inactive() {
    let bench = Bench::new("");
    for _ in 0..5 {
        bench.call(QUESTION, ANSWER);
    }
    let mut stream = bench.held(&[]);
    interfere_after_next(&bench.host, usize::MAX);
    assert_eq!(bench.body(&mut stream, QUESTION), Flow::Continue);
    bench.host.before_set.borrow_mut().take();
    assert!(bench.host.replies.borrow().is_empty() && bench.reports().is_empty());
    assert_eq!((bench.counted(Outcome::Contended), bench.host.metric(Metric::Kills)), (1, 0));
    bench.answer(&mut stream, 200, ANSWER);
    let bytes = bench.host.get(&agent_key("a")).bytes;
    let value = Value::decode(&bytes).unwrap();
    let calls = value.record.window(value.window).calls();
    assert!(calls.iter().all(|call| call.in_flight == 0), "its answer has arrived: {calls:?}");
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
