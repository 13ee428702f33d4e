//! Every record that can be stored is read as it was written, and takes from a policy what it should.

use super::*;
use crate::policy::MAX_TOOLS;
use proptest::prelude::*;

fn stop(conversation: u64) -> StoppedSession {
    let (key, action, reason) = (session_key(conversation), Action::Deactivate, String::new());
    StoppedSession { key, until_ms: 1, stopped_for_ms: None, releases: 0, action, reason }
}

fn policy() -> AgentPolicy {
    serde_json::from_str(r#"{"agent_id": "a", "active": true}"#).unwrap()
}

fn record() -> impl Strategy<Value = Record> {
    let words = (
        prop_oneof![Just(None), Just(Some(DeactivatedBy::KillSwitch)), Just(Some(DeactivatedBy::Manual))],
        prop_oneof![Just(Action::Deactivate), Just(Action::Block), Just(Action::Observe)],
        prop_oneof![Just(Counting::Literal), Just(Counting::Progress)],
        prop_oneof![Just(Scope::Agent), Just(Scope::Session)],
        prop_oneof![Just(AnswerLoop::Off), Just(AnswerLoop::Observe), Just(AnswerLoop::Cut)],
    );
    (words, any::<([bool; 2], [u32; 6], [u64; 3])>(), 0.5f64..1000.0).prop_map(|(words, numbers, threshold)| {
        let (deactivated_by, action, counting, scope, answer_loop) = words;
        let ([active, enabled], small, [generation, blocked_until_ms, told_again_ms]) = numbers;
        let [round, window_size, retry_after_seconds, blocks, idle_reset_seconds, session_stop_seconds] = small;
        Record {
            round,
            active,
            deactivated_by,
            generation,
            enabled,
            window_size,
            threshold,
            action,
            counting,
            retry_after_seconds,
            idle_reset_seconds,
            scope,
            session_stop_seconds,
            answer_loop,
            blocked_until_ms,
            blocks,
            told_again_ms,
        }
    })
}

proptest! {
    #[test]
    fn any_record_is_read_as_it_was_written(
        record in record(),
        reason in "[a-z]{0,9}",
        tools in prop::collection::vec(any::<StoredRule>(), 0..=MAX_TOOLS),
        window: Vec<u8>,
        (other, stopped) in (any::<u64>(), prop::collection::vec(any::<u64>(), 0..4)),
    ) {
        let mut details = Details { reason, tools: tools.clone(), ..Details::default() };
        stopped.iter().for_each(|key| details.add_stop(stop(*key)));
        let bytes = [record.encode(&details), window.clone()].concat();
        let value = Value::decode(&bytes).unwrap();
        prop_assert_eq!(value.record, record);
        prop_assert_eq!(value.window, window.as_slice());
        prop_assert_eq!(value.tools, tools.as_slice());
        prop_assert!(stopped.iter().all(|key| value.may_have_stopped(*key)));
        prop_assert!(!value.may_have_stopped(other));
        prop_assert_eq!(value.details(), details);
        let changes = Details { reason: "another".to_owned(), ..Details::default() };
        let changed = value.with_policy(&record.killed(), &changes);
        let changed = Value::decode(&changed).unwrap();
        prop_assert_eq!((changed.record, changed.details()), (record.killed(), changes));
        prop_assert_eq!(changed.window, window.as_slice());
        let empty = record.window(&[]);
        let changed = value.with_window(&empty);
        prop_assert_eq!(Value::decode(&changed).unwrap().window, empty.bytes());
        prop_assert_eq!(Value::decode(&changed).unwrap().policy, value.policy);
    }
}

#[test]
fn settings_out_of_bounds_are_replaced_or_limited() {
    for (given, retry, stop) in [(0, 1, 1), (7, 7, 7), (u32::MAX, MAX_RETRY_AFTER_SECONDS, MAX_SESSION_STOP_SECONDS)] {
        let policy = AgentPolicy { retry_after_seconds: given, session_stop_seconds: given, ..policy() };
        let record = Record::new(&policy, 0);
        assert_eq!((record.retry_after_seconds, record.session_stop_seconds), (retry, stop), "{given}");
    }
    let policy = AgentPolicy { kill_switch_threshold: f64::NAN, kill_switch_window_size: 7, ..policy() };
    let record = Record::new(&policy, 0);
    assert_eq!((record.window_size, record.threshold), (DEFAULT_WINDOW_SIZE, DEFAULT_THRESHOLD));
}

#[test]
fn a_policy_of_the_same_generation_keeps_what_this_envoy_did_and_takes_the_rest() {
    let manual = AgentPolicy { active: false, deactivated_by: Some(DeactivatedBy::Manual), ..policy() };
    let before = Record { blocks: 3, blocked_until_ms: 9, told_again_ms: 8, ..Record::new(&policy(), 1) };
    let by = |before: &Record, policy: &AgentPolicy| {
        let after = Record::updated(Some(before), policy, 2);
        assert_eq!((after.round, after.blocks, after.blocked_until_ms, after.told_again_ms), (2, 3, 9, 8));
        (after.active, after.deactivated_by)
    };
    assert_eq!(by(&before, &policy()), (true, None));
    assert_eq!(by(&before, &manual), (false, Some(DeactivatedBy::Manual)));
    assert_eq!(by(&before.killed(), &policy()), (false, Some(DeactivatedBy::KillSwitch)));
    assert_eq!(by(&before.killed(), &manual), (false, Some(DeactivatedBy::Manual)), "a person has the last word");
    let next = AgentPolicy { generation: 1, ..policy() };
    let after = Record::updated(Some(&before.killed()), &next, 2);
    assert_eq!((after.active, after.blocks, after.blocked_until_ms), (true, 0, 0));
    assert_eq!(Record::updated(None, &policy(), 2), Record::new(&policy(), 2));
}

#[test]
fn only_an_inactive_agent_that_the_kill_switch_deactivated_is_killed() {
    let record = Record::new(&policy(), 0);
    for (active, deactivated_by, killed) in [
        (true, None, false),
        (true, Some(DeactivatedBy::KillSwitch), false),
        (false, None, false),
        (false, Some(DeactivatedBy::Manual), false),
        (false, Some(DeactivatedBy::KillSwitch), true),
    ] {
        assert_eq!(Record { active, deactivated_by, ..record }.is_killed(), killed, "{active}, {deactivated_by:?}");
    }
}

#[test]
fn every_activation_and_every_block_has_a_window_of_its_own() {
    let record = Record { generation: 3, ..Record::new(&policy(), 0) };
    assert_eq!(record.window_generation(), 0x3_0000);
    assert_eq!(record.blocked(0).window_generation(), 0x3_0001);
    assert_eq!(Record { blocks: 0x1_0005, ..record }.window_generation(), 0x3_0005);
    let far = Record { blocked_until_ms: u64::MAX, ..record };
    assert_eq!(far.blocked_for_seconds(0), u32::MAX);
    let (window, slot) = (record.window(&[]), record.slot(&[]));
    assert_eq!(record.window(window.bytes()), window);
    assert_eq!(record.slot(slot.bytes()), slot);
    assert_ne!(window, slot);
}

#[test]
fn a_block_of_a_conversation_lasts_as_long_as_one_of_the_agent() {
    let record = Record::new(&AgentPolicy { retry_after_seconds: 2, session_stop_seconds: 3, ..policy() }, 0);
    for (action, ms) in [(Action::Block, 2_000), (Action::Deactivate, 3_000), (Action::Observe, 3_000)] {
        assert_eq!(record.stop_ms(action), ms, "{action:?}");
    }
}

#[test]
fn the_reason_and_the_report_of_a_kill_are_kept_until_the_policy_has_a_reason() {
    let (record, now) = (Record::new(&policy(), 0), Now { clock_ms: 5, steady_ms: 5 });
    let before = Details { reason: "local".to_owned(), report: "{}".to_owned(), ..Details::default() };
    assert_eq!(before.updated(&policy(), &record, now), before);
    let told = AgentPolicy { reason: Some("told".to_owned()), ..policy() };
    let after = before.updated(&told, &record, now);
    assert_eq!((after.reason.as_str(), after.report.as_str()), ("told", "{}"));
}

#[test]
fn a_stop_that_the_policy_knows_as_well_is_taken_from_the_policy() {
    let (record, now) = (Record::new(&policy(), 0), Now { clock_ms: 0, steady_ms: 0 });
    let stop = |reason: &str| StoppedSession {
        key: "00000000000000aa".to_owned(),
        until_ms: 9_000,
        stopped_for_ms: None,
        releases: 0,
        action: Action::Deactivate,
        reason: reason.to_owned(),
    };
    let local = Details { stopped_sessions: vec![stop("local")], ..Details::default() };
    let told = AgentPolicy { stopped_sessions: vec![stop("told")], ..policy() };
    let reasons = |details: Details| details.stopped_sessions.into_iter().map(|stop| stop.reason).collect::<Vec<_>>();
    assert_eq!(reasons(local.updated(&told, &record, now)), ["told"]);
    assert_eq!(reasons(local.updated(&policy(), &record, now)), ["local"]);
}

#[test]
fn calls_are_scored_by_the_settings_of_the_record() {
    let settings = AgentPolicy { kill_switch_window_size: 7, idle_reset_seconds: 9, ..policy() };
    let scorer = Record::new(&settings, 0).scorer();
    assert_eq!((scorer.window_size, scorer.idle_reset_seconds), (7, 9));
    assert_eq!((scorer.counting, scorer.rules), (settings.counting, Rules::default()));
}

#[test]
fn a_conversation_that_is_stopped_again_has_one_stop() {
    let stop = |key, until_ms| StoppedSession {
        key: session_key(key),
        until_ms,
        stopped_for_ms: None,
        releases: 0,
        action: Action::Deactivate,
        reason: String::new(),
    };
    let mut details = Details::default();
    for (key, until_ms) in [(1, 10), (2, 20), (1, 30)] {
        details.add_stop(stop(key, until_ms));
    }
    assert_eq!(details.stopped_sessions, [stop(2, 20), stop(1, 30)]);
    assert_eq!(details.stop(1), Some(&stop(1, 30)));
    assert_eq!(details.stop(3), None);
}

#[test]
fn the_rules_of_tools_come_with_the_policy_and_fit_into_its_window() {
    let tools = serde_json::from_str(r#"{"status": 50, "wait": "ignore"}"#).unwrap();
    let with_tools = AgentPolicy { tools, kill_switch_window_size: 30, answer_loop: AnswerLoop::Cut, ..policy() };
    let (record, now) = (Record::new(&with_tools, 0), Now { clock_ms: 5, steady_ms: 5 });
    let details = Details::new(&with_tools, &record, now);
    let count_from: Vec<u8> = details.tools.iter().map(|rule| rule[RULE_BYTES - 1]).collect();
    assert_eq!((count_from, record.answer_loop), (vec![30, 0], AnswerLoop::Cut));
    assert_eq!(details.updated(&policy(), &record, now), Details::default(), "they go with the next policy");
}
