//! Requirement: Prompt Normalization.

use agent_kill_switch::fingerprint::display::normalised;
use serde_json::{Value, json};

use crate::{COUNTINGS, ask, fingerprint, turn};

fn assert_normalised(text: &str, expected: &str) {
    assert_eq!(normalised(text.as_bytes()), expected, "{text:?}");
}

#[test]
fn normalize_numbers() {
    // WHEN prompt contains numbers like "order #12345"
    // THEN numbers SHALL be replaced with `<NUM>` placeholder
    assert_normalised("order #12345", "order #<NUM>");
    assert_normalised("Page 42 of 1,000 (3.5 %)", "page <NUM> of <NUM> (<NUM> %)");
}

#[test]
fn normalize_timestamps() {
    // WHEN prompt contains ISO timestamps like "2024-01-15T10:30:00Z"
    // THEN timestamps SHALL be replaced with `<TS>` placeholder
    assert_normalised("at 2024-01-15T10:30:00Z", "at <TS>");
    assert_normalised("from 2024-01-15 to 2024-01-16T00:00:00.5+05:00.", "from <TS> to <TS>.");
}

#[test]
fn normalize_uuids() {
    // WHEN prompt contains UUIDs like "550e8400-e29b-41d4-a716-446655440000"
    // THEN UUIDs SHALL be replaced with `<ID>` placeholder
    assert_normalised("session 550e8400-e29b-41d4-a716-446655440000", "session <ID>");
    assert_normalised("{550E8400-E29B-41D4-A716-446655440000}", "{<ID>}");
}

#[test]
fn normalize_whitespace() {
    // WHEN prompt contains multiple spaces or varied line endings
    for text in
        ["find  the   file", "find\tthe\nfile", "find\r\nthe\r\n\r\nfile", " find the file\n", "find\u{a0}the file"]
    {
        // THEN whitespace SHALL be normalized to single spaces
        assert_normalised(text, "find the file");
        assert_eq!(fingerprint(text), fingerprint("find the file"), "{text:?}");
    }
}

#[test]
fn extract_user_message() {
    // WHEN request contains multi-turn conversation (messages array)
    let conversation = |blocks: bool| {
        let content = |text: &str| if blocks { json!([{"type": "text", "text": text}]) } else { json!(text) };
        json!({"messages": [
            {"role": "system", "content": content("You are a helpful assistant.")},
            {"role": "user", "content": content("What is the capital of France?")},
            {"role": "assistant", "content": content("The capital of France is Paris.")},
            {"role": "user", "content": content("And how many people live there?")},
        ]})
    };
    for counting in COUNTINGS {
        let input = |body: &Value| turn(body, counting).input;
        for blocks in [false, true] {
            // THEN only the last user message SHALL be used for hashing
            let expected = fingerprint("And how many people live there?");
            assert_eq!(input(&conversation(blocks)), expected, "{counting:?}, blocks: {blocks}");
        }
        assert_eq!(input(&ask("And how many people live there?").body), input(&conversation(false)));
    }
}
