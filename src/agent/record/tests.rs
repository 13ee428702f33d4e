use super::*;

fn policy() -> AgentPolicy {
    serde_json::from_str(r#"{"agent_id": "a", "active": true}"#).unwrap()
}

#[test]
fn a_block_by_the_sidecar_lasts_as_long_as_it_says_and_clears_the_window_once() {
    let now = Now { clock_ms: 1_000_000, steady_ms: 5_000 };
    let block = |until_ms| {
        let (key, reason) = (WHOLE_AGENT.to_owned(), "over 2 Envoys".to_owned());
        let stop = StoppedSession { key, until_ms, stopped_for_ms: None, releases: 0, action: Action::Block, reason };
        AgentPolicy { stopped_sessions: vec![stop], ..policy() }
    };
    let mut record = Record::new(&policy(), 0);
    record.apply_block(&block(1_000_000), now);
    assert_eq!(record, Record::new(&policy(), 0), "a block that is over");
    record.apply_block(&block(1_030_000), now);
    assert_eq!((record.blocked_for_seconds(5_000), record.blocks), (30, 1));
    record.apply_block(&block(1_030_000), Now { clock_ms: 1_001_000, steady_ms: 6_000 });
    assert_eq!((record.blocked_for_seconds(6_000), record.blocks), (29, 1), "told again");
    let mut clock_ahead = Record::new(&policy(), 0);
    clock_ahead.apply_block(&block(u64::MAX), now);
    assert_eq!(clock_ahead.blocked_for_seconds(5_000), clock_ahead.retry_after_seconds);
    let details = Details::new(&block(1_030_000), &record, now);
    assert_eq!((details.reason.as_str(), details.stopped_sessions.len()), ("over 2 Envoys", 0));
}

#[test]
fn a_local_kill_outlives_a_policy_of_its_generation_and_ends_with_the_next() {
    let killed = Record::new(&policy(), 0).killed();
    let same = Record::updated(Some(&killed), &AgentPolicy { kill_switch_window_size: 30, ..policy() }, 0);
    assert!(same.is_killed());
    assert_eq!(same.window_size, 30, "settings still arrive");
    let next = Record::updated(Some(&killed), &AgentPolicy { generation: 1, ..policy() }, 0);
    assert!(next.active);
    assert_eq!(next.deactivated_by, None);
}

#[test]
fn a_manual_deactivation_is_undone_by_a_policy_of_its_generation() {
    let off = AgentPolicy { active: false, deactivated_by: Some(DeactivatedBy::Manual), ..policy() };
    let record = Record::updated(Some(&Record::new(&off, 0)), &policy(), 0);
    assert!(record.active);
    assert_eq!(record.deactivated_by, None);
}

#[test]
fn a_block_ends_after_its_time_and_starts_a_fresh_window() {
    let record = Record::new(&policy(), 0);
    let blocked = record.blocked(1_000);
    for (now_ms, seconds) in [(1_000, 60), (60_999, 1), (61_000, 0)] {
        assert_eq!(blocked.blocked_for_seconds(now_ms), seconds, "{now_ms}");
    }
    assert_ne!(blocked.window_generation(), record.window_generation());
    assert_eq!(Record::updated(Some(&blocked), &policy(), 0).blocked_until_ms, 61_000);
}

#[test]
fn records_round_trip_and_other_bytes_are_not_records() {
    let record = Record { blocks: 7, told_again_ms: 9, ..Record::new(&policy(), 3).blocked(5).killed() };
    let tools = tools::encode(&serde_json::from_str(r#"{"wait": "ignore", "status": 20}"#).unwrap(), 20);
    let details = Details { reason: "the same input 6 times".to_owned(), tools, ..Details::default() };
    assert_eq!(record.encode(&Details::default()).len(), Record::BYTES);
    let bytes = record.encode(&details);
    let value = Value::decode(&bytes).unwrap();
    assert_eq!((value.record, value.details(), value.window), (record, details, &[][..]));
    for len in 0..bytes.len() {
        assert!(Value::decode(&bytes[..len]).is_none(), "{len} bytes");
    }
    assert!(Value::decode(&[9; 80]).is_none(), "another version");
}

fn stop(until_ms: u64, releases: u32) -> StoppedSession {
    let key = "00000000000000aa".to_owned();
    let (action, reason) = (Action::Deactivate, String::new());
    StoppedSession { key, until_ms, stopped_for_ms: None, releases, action, reason }
}

#[test]
fn a_local_stop_of_a_conversation_outlives_policies_until_it_is_let_go_on() {
    let cases = [
        ("the sidecar does not know it yet", vec![], 50),
        ("the sidecar knows it", vec![stop(99, 0)], 99),
        ("it was let go on", vec![stop(0, 1)], 0),
        ("it was let go on before this stop", vec![stop(0, 0)], 50),
    ];
    for (name, stopped_sessions, until_ms) in cases {
        let before = Details { stopped_sessions: vec![stop(50, 0)], ..Details::default() };
        let policy = AgentPolicy { stopped_sessions, ..policy() };
        let after = before.updated(&policy, &Record::new(&policy, 0), Now { clock_ms: 49, steady_ms: 49 });
        assert_eq!(after.stop(0xAA).map(|stop| stop.until_ms), Some(until_ms), "{name}");
    }
    let before = Details { stopped_sessions: vec![stop(50, 0)], ..Details::default() };
    let now = Now { clock_ms: 50, steady_ms: 50 };
    assert_eq!(before.updated(&policy(), &Record::new(&policy(), 0), now), Details::default(), "its time is up");
}

#[test]
fn the_stop_of_a_policy_lasts_as_long_as_the_sidecar_says_but_never_longer_than_the_settings_say() {
    let (hour, clock_ms, steady_ms) = (3_600_000, 1_700_000_000_000, 5_000_000);
    let cases = [
        ("half of its time is left", clock_ms + hour / 2, steady_ms + hour / 2),
        ("the clock of the sidecar is ahead by a day", clock_ms + 25 * hour, steady_ms + hour),
        ("its time is up", clock_ms - 1, 0),
        ("it was let go on", 0, 0),
    ];
    let until = |stop: StoppedSession| {
        let policy = AgentPolicy { stopped_sessions: vec![stop], ..policy() };
        let details = Details::new(&policy, &Record::new(&policy, 0), Now { clock_ms, steady_ms });
        assert!(details.stopped_sessions.iter().all(|stop| stop.stopped_for_ms.is_none()));
        details.stop(0xAA).map(|stop| stop.until_ms)
    };
    for (name, told_ms, until_ms) in cases {
        assert_eq!(until(stop(told_ms, 0)), Some(until_ms), "{name}");
    }
    // A sidecar that says how long the stop still lasts need not have the same time.
    for clock_of_sidecar_ms in [clock_ms, clock_ms - 48 * hour, clock_ms + 48 * hour] {
        for (left_ms, until_ms) in [(hour / 2, steady_ms + hour / 2), (25 * hour, steady_ms + hour), (0, 0)] {
            let told = StoppedSession { stopped_for_ms: Some(left_ms), ..stop(clock_of_sidecar_ms + left_ms, 0) };
            assert_eq!(until(told), Some(until_ms), "{clock_of_sidecar_ms}, {left_ms}");
        }
    }
}

#[test]
fn the_number_of_stopped_conversations_is_bounded() {
    let mut details = Details::default();
    for key in 0..200 {
        details.add_stop(StoppedSession { key: session_key(key), ..stop(50, 0) });
    }
    assert_eq!(details.stopped_sessions.len(), MAX_STOPPED_SESSIONS as usize);
    assert!(details.stop(199).is_some() && details.stop(0).is_none());
}

#[test]
fn when_there_are_too_many_stops_those_that_end_first_are_forgotten() {
    let most = u64::from(MAX_STOPPED_SESSIONS);
    let told = |key: u64| StoppedSession { key: session_key(key), ..stop(10_000 + key, 0) };
    let (record, now) = (Record::new(&policy(), 0), Now { clock_ms: 0, steady_ms: 0 });
    let mut details = Details::default();
    (0..most).for_each(|key| details.add_stop(told(key)));
    // The sidecar knows newer stops, which other Envoys made, and tells no others.
    let newer: Vec<_> = (most..most + 10).map(told).collect();
    let policy = AgentPolicy { stopped_sessions: newer, ..policy() };
    let updated = details.updated(&policy, &record, now);
    let kept = |key| updated.stop(key).is_some();
    assert_eq!(updated.stopped_sessions.len() as u64, most);
    assert!((0..10).all(|key| !kept(key)) && (10..most + 10).all(kept));
}
