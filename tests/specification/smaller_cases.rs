//! Smaller cases that a detector of this kind must get right.

use agent_kill_switch::agent::record::Record;
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::display::normalised;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::policy::check_settings;
use agent_kill_switch::wire::{Action, AgentPolicy, Counting};
use lab::Answer;
use serde_json::{Value, json};

use crate::common::{Agent, killed_at, sentence};
use crate::proxy::policy;
use crate::{COUNTINGS, chat, distance, fingerprint, turn};

#[test]
fn the_defaults_are_off_window_20_threshold_10() {
    let record = Record::new(&policy(json!({})), 1);
    assert_eq!((record.enabled, record.window_size, record.threshold), (false, 20, 10.0));
    assert_eq!((record.action, record.counting), (Action::Deactivate, Counting::Progress));
}

#[test]
fn an_update_of_one_setting_keeps_the_rest() {
    let settings = json!({"kill_switch_enabled": true, "kill_switch_window_size": 30, "kill_switch_threshold": 12.5,
        "action": "block", "counting": "literal", "retry_after_seconds": 90, "generation": 3});
    let before = Record::new(&policy(settings.clone()), 1).blocked(1_000);
    for (field, value) in [("kill_switch_window_size", json!(40)), ("kill_switch_threshold", json!(8.0))] {
        let mut changed = settings.clone();
        changed[field] = value;
        let after = Record::updated(Some(&before), &policy(changed), 1);
        let undone = Record { window_size: before.window_size, threshold: before.threshold, ..after };
        assert_ne!(after, before, "{field}");
        assert_eq!(undone, before, "{field}: the rest is unchanged, also the time until which the agent is blocked");
    }
}

#[test]
fn volatile_text_becomes_placeholders_and_words_are_never_eaten() {
    let cases = [
        ("page 42 of 100", "page <NUM> of <NUM>"),
        ("id: 550e8400-e29b-41d4-a716-446655440000", "id: <ID>"),
        ("at 2024-01-15T10:30:00Z", "at <TS>"),
        ("at 2024-01-15T10:30:00.123Z", "at <TS>"),
        ("at 2024-01-15T10:30:00+05:00", "at <TS>"),
        ("on 2024-01-15", "on <TS>"),
        ("hash: 0123456789abcdef0123", "hash: <ID>"),
        ("orders are idle; identify the messages", "orders are idle; identify the messages"),
        ("tabs\tand\r\nlines   and spaces", "tabs and lines and spaces"),
        ("", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(normalised(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn the_input_is_taken_from_the_first_of_these_places() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let system = json!({"role": "system", "content": "Only instructions here."});
    let blocks = json!([{"type": "text", "text": "Where is it?"}]);
    let cases = [
        ("the last user message", json!({"messages": [user(json!("First.")), user(json!("Where is it?"))]})),
        ("in blocks as in a string", json!({"messages": [user(blocks)]})),
        ("messages before prompt", json!({"prompt": "No.", "messages": [user(json!("Where is it?"))]})),
        ("prompt where there are no messages", json!({"prompt": "Where is it?"})),
        ("input where there are no messages", json!({"input": "Where is it?"})),
    ];
    for counting in COUNTINGS {
        // Progress counting reads everything since the model last spoke, not only the last user message.
        let spoken = json!({"messages": [user(json!("First.")), {"role": "assistant", "content": "Done."},
            user(json!("Where is it?"))]});
        let skipped = usize::from(counting == Counting::Progress);
        for (what, body) in cases.iter().skip(skipped).chain([&("after an answer", spoken)]) {
            assert_eq!(turn(body, counting).input, fingerprint("Where is it?"), "{what}, {counting:?}");
        }
        let without_user = turn(&json!({"messages": [system]}), counting).input;
        assert_eq!(
            without_user,
            fingerprint("Only instructions here."),
            "without a user message the last message, {counting:?}"
        );
        let null = turn(&json!({"messages": [user(Value::Null)]}), counting).input;
        assert_eq!(null, Fingerprint { informative: false, ..fingerprint("") }, "null is empty, {counting:?}");
    }
}

#[test]
fn distance_counts_differing_bits_and_is_symmetric() {
    for (a, b, expected) in [(1, 2, 2), (1, 3, 1), (0, 15, 4), (5, 5, 0), (0, u64::MAX, 64)] {
        assert_eq!(SimHash(a).distance(SimHash(b)), expected);
        assert_eq!(SimHash(b).distance(SimHash(a)), expected);
    }
}

#[test]
fn unrelated_texts_are_over_twenty_bits_apart_on_average() {
    let texts =
        ["Book a flight to Lisbon.", "The compiler rejects this program.", "Add two eggs and stir.", "列出所有文件"];
    let texts: Vec<String> = texts.map(str::to_owned).into_iter().chain((0..20).map(sentence)).collect();
    let distances: Vec<u32> = texts
        .iter()
        .enumerate()
        .flat_map(|(index, a)| texts[index + 1..].iter().map(move |b| distance(a, b)))
        .collect();
    let mean = f64::from(distances.iter().sum::<u32>()) / distances.len() as f64;
    assert!(mean > 20.0, "{mean}");
}

#[test]
fn one_letter_makes_another_word() {
    for (a, b) in [("test", "tests"), ("cat", "car"), ("search file", "search files")] {
        assert!(distance(a, b) >= 3, "{a} and {b} are not similar");
    }
    assert!(distance("test", "tests") > 5);
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let numbers = [(1.0, 10.0), (101.0, 10.0), (7.5, 10.0), (20.0, 0.0), (20.0, -1.0), (20.0, 83.5), (2.0, 2.5)];
    for (window_size, threshold) in numbers {
        let error = check_settings(window_size, threshold).unwrap_err();
        let field = if window_size == 20.0 || window_size == 2.0 { "threshold" } else { "window_size" };
        assert_eq!(error.field(), format!("kill_switch_{field}"), "window {window_size}, threshold {threshold}");
        assert!(error.to_string().starts_with(error.field()), "{error}");
    }
    for (field, value) in [("window_size", json!("abc")), ("window_size", json!(7.5)), ("threshold", json!("x"))] {
        let mut fields = json!({"agent_id": "bot", "active": true});
        fields[format!("kill_switch_{field}")] = value;
        assert!(serde_json::from_value::<AgentPolicy>(fields.clone()).is_err(), "{fields}");
    }
}

#[test]
fn the_highest_score_that_bounds_the_threshold_can_be_reached() {
    for counting in COUNTINGS {
        let mut agent = Agent::with(20, 83.4, counting);
        let call = json!({"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}});
        let request = chat(json!({"messages": [
            {"role": "user", "content": "Find it."},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "nothing was found anywhere"},
        ]}));
        let killed = killed_at(20, |_| agent.call(&request, &Answer::text("I am still looking.")));
        assert_eq!((killed, agent.last().value()), (Some(20), 83.5), "{counting:?}");
    }
}
