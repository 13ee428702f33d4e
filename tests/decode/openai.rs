//! OpenAI Chat Completions and the APIs that imitate it.

use agent_kill_switch::turn::Answer;
use agent_kill_switch::turn::Format::{OpenAiChat, OpenAiCompletions};

use crate::support::*;

#[test]
fn a_refusal_is_an_answer() {
    let whole =
        r#"{"choices": [{"message": {"role": "assistant", "content": null, "refusal": "I cannot help with that"}}]}"#;
    let parts = [
        r#"{"choices":[{"index":0,"delta":{"refusal":"I cannot he"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"refusal":"lp with that"}}]}"#,
    ];
    assert_whole_and_streamed(OpenAiChat, whole, &parts, words(&["I cannot help with that"]));
}

#[test]
fn a_legacy_function_call_is_a_call() {
    let whole =
        r#"{"choices": [{"message": {"content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}}}]}"#;
    let parts = [
        r#"{"choices":[{"delta":{"content":null,"function_call":{"name":"f","arguments":""}}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"arguments":"{\"a\""}}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"arguments":": 1}"}}}]}"#,
    ];
    assert_whole_and_streamed(OpenAiChat, whole, &parts, calls(&[("f", "{\"a\":1}")]));
    let request = r#"{"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}},
        {"role": "function", "name": "f", "content": "went there"}]}"#;
    let turn = decode("/v1/chat/completions", request).unwrap();
    assert_eq!((turn.input, turn.tools), (fingerprint(&["went there"]), results(&[("f", "{\"a\":1}")])));
}

#[test]
fn a_call_of_a_custom_tool_is_a_call() {
    let whole = r#"{"choices": [{"message": {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}]}}]}"#;
    let parts = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"sh","input":"ls"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"input":" -l"}}]}}]}"#,
    ];
    assert_whole_and_streamed(OpenAiChat, whole, &parts, calls(&[("sh", "ls -l")]));
}

#[test]
fn parts_of_calls_are_joined_by_index_and_id() {
    let delta = |index: &str, id: &str, name: &str, arguments: &str| {
        let call = format!(r#"{{{index}"id":"{id}","function":{{"name":{name},"arguments":"{arguments}"}}}}"#);
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{call}]}}}}]}}"#)
    };
    let index = r#""index":0,"#;
    for (parts, expected) in [
        ([delta("", "c1", "\"f\"", "{}"), delta("", "c2", "\"g\"", "{}")], &[("f", "{}"), ("g", "{}")][..]),
        ([delta(index, "c1", "\"f\"", "{}"), delta(index, "c2", "\"g\"", "{}")], &[("f", "{}"), ("g", "{}")]),
        ([delta(index, "c1", "\"f\"", ""), delta(index, "c1", "null", "{}")], &[("f", "{}")]),
    ] {
        assert_eq!(event_answer(OpenAiChat, &[&parts[0], &parts[1]]), calls(expected), "{parts:?}");
    }
}

#[test]
fn only_the_first_of_several_choices_is_read() {
    let whole = r#"{"choices": [{"index": 1, "message": {"content": "no"}}, {"index": 0, "message": {"content": "yes indeed"}}]}"#;
    let parts = [
        r#"{"choices":[{"index":0,"delta":{"content":"yes "}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"no"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"indeed"}}]}"#,
    ];
    assert_whole_and_streamed(OpenAiChat, whole, &parts, words(&["yes indeed"]));
    let texts = r#"{"choices": [{"index": 0, "text": "yes indeed"}, {"index": 1, "text": "no"}]}"#;
    assert_eq!(json_answer(OpenAiCompletions, texts), words(&["yes indeed"]));
}

#[test]
fn reasoning_is_not_part_of_the_answer() {
    let whole =
        r#"{"choices": [{"message": {"reasoning_content": "hmm", "reasoning": "hmm", "content": "forty two"}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), words(&["forty two"]));
    let only = r#"{"choices": [{"message": {"reasoning_content": "hmm", "content": ""}}]}"#;
    assert_eq!(json_answer(OpenAiChat, only), Answer::Unknown);
}

#[test]
fn content_in_blocks_is_the_same_whole_and_streamed() {
    let whole = r#"{"choices": [{"message": {"content": [{"type": "thinking", "thinking": [{"text": "hmm"}]}, {"type": "text", "text": "forty-two it is"}]}}]}"#;
    let parts = [
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hmm"}]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"forty-tw"}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"o it is"}}]}"#,
    ];
    assert_whole_and_streamed(OpenAiChat, whole, &parts, words(&["forty-two it is"]));
}

#[test]
fn an_instruction_between_calls_and_results_is_ignored() {
    let body = r#"{"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "developer", "content": "mind the gap"},
        {"role": "tool", "content": "went there"}]}"#;
    let turn = decode("/v1/chat/completions", body).unwrap();
    assert_eq!((turn.input, turn.tools), (fingerprint(&["went there"]), results(&[("f", "{}")])));
}

#[test]
fn a_message_beside_a_delta_is_neither_the_end_nor_text_of_its_own() {
    let chunk = |message: &str, delta: &str, finish: &str| {
        format!(
            r#"{{"choices": [{{"index": 0, "message": {{"content": "{message}"}}, "delta": {{"content": "{delta}"}}, "finish_reason": {finish}}}]}}"#
        )
    };
    let chunks = [
        chunk("one ", "one ", "null"),
        chunk("one two ", "two ", "null"),
        chunk("one two three", "three", r#""stop""#),
    ];
    let events: Vec<_> = chunks.iter().map(String::as_str).collect();
    assert_eq!(event_answer(OpenAiChat, &events), words(&["one two three"]));
}

#[test]
fn an_error_in_the_choice_of_a_whole_answer_is_a_failure() {
    for choice in [
        r#""message": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "No provider"}"#,
        r#""message": {"content": "The"}, "finish_reason": "error""#,
        r#""message": {"content": "The"}, "error": {"code": 502}"#,
    ] {
        let body = format!(r#"{{"choices": [{{"index": 0, {choice}}}]}}"#);
        assert_eq!(json_answer(OpenAiChat, &body), Answer::Failed, "{choice}");
    }
    let body = r#"{"choices": [{"message": {"content": "hello there"}, "finish_reason": "stop", "error": null}]}"#;
    assert_eq!(json_answer(OpenAiChat, body), words(&["hello there"]));
}
