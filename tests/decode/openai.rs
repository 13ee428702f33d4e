//! OpenAI Chat Completions and what speaks like it.

use agent_kill_switch::turn::Answer;
use agent_kill_switch::turn::Format::{OpenAiChat, OpenAiCompletions};

use crate::support::*;

#[test]
fn a_refusal_is_an_answer() {
    let whole =
        r#"{"choices": [{"message": {"role": "assistant", "content": null, "refusal": "I cannot help with that"}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), words(&["I cannot help with that"]));
    let parts = [
        r#"{"choices":[{"index":0,"delta":{"refusal":"I cannot he"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"refusal":"lp with that"}}]}"#,
    ];
    assert_eq!(event_answer(OpenAiChat, &parts), words(&["I cannot help with that"]));
}

#[test]
fn the_legacy_function_call_is_a_call() {
    let whole =
        r#"{"choices": [{"message": {"content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), calls(&[("f", "{\"a\":1}")]));
    let parts = [
        r#"{"choices":[{"delta":{"content":null,"function_call":{"name":"f","arguments":""}}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"arguments":"{\"a\""}}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"arguments":": 1}"}}}]}"#,
    ];
    assert_eq!(event_answer(OpenAiChat, &parts), calls(&[("f", "{\"a\":1}")]));
    let request = r#"{"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}},
        {"role": "function", "name": "f", "content": "went there"}]}"#;
    let turn = decode("/v1/chat/completions", request).unwrap();
    assert_eq!((turn.input, turn.tools), (fingerprint(&["went there"]), results(&[("f", "{\"a\":1}")])));
}

#[test]
fn a_custom_tools_call_is_a_call() {
    let whole = r#"{"choices": [{"message": {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}]}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), calls(&[("sh", "ls -l")]));
    let parts = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"sh","input":"ls"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"input":" -l"}}]}}]}"#,
    ];
    assert_eq!(event_answer(OpenAiChat, &parts), calls(&[("sh", "ls -l")]));
}

#[test]
fn calls_without_an_index_are_told_apart_by_their_ids() {
    for index in ["", r#""index":0,"#] {
        let part = |id: &str, name: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{{index}"id":"{id}","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}}}]}}"#
            )
        };
        let events = [part("c1", "f"), part("c2", "g")];
        assert_eq!(event_answer(OpenAiChat, &[&events[0], &events[1]]), calls(&[("f", "{}"), ("g", "{}")]), "{index}");
    }
}

#[test]
fn an_id_that_every_part_repeats_is_one_call() {
    let part = |name: &str, arguments: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"c1","function":{{"name":{name},"arguments":"{arguments}"}}}}]}}}}]}}"#
        )
    };
    let events = [part("\"f\"", ""), part("null", "{}")];
    assert_eq!(event_answer(OpenAiChat, &[&events[0], &events[1]]), calls(&[("f", "{}")]));
}

#[test]
fn of_several_choices_the_first_is_read() {
    let whole = r#"{"choices": [{"index": 1, "message": {"content": "no"}}, {"index": 0, "message": {"content": "yes indeed"}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), words(&["yes indeed"]));
    let parts = [
        r#"{"choices":[{"index":0,"delta":{"content":"yes "}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"no"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"indeed"}}]}"#,
    ];
    assert_eq!(event_answer(OpenAiChat, &parts), words(&["yes indeed"]));
    let texts = r#"{"choices": [{"index": 0, "text": "yes indeed"}, {"index": 1, "text": "no"}]}"#;
    assert_eq!(json_answer(OpenAiCompletions, texts), words(&["yes indeed"]));
}

#[test]
fn reasoning_beside_the_content_is_no_answer() {
    let whole =
        r#"{"choices": [{"message": {"reasoning_content": "hmm", "reasoning": "hmm", "content": "forty two"}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), words(&["forty two"]));
    let only = r#"{"choices": [{"message": {"reasoning_content": "hmm", "content": ""}}]}"#;
    assert_eq!(json_answer(OpenAiChat, only), Answer::Unknown);
}

#[test]
fn content_in_blocks_is_the_same_streamed() {
    let whole = r#"{"choices": [{"message": {"content": [{"type": "thinking", "thinking": [{"text": "hmm"}]}, {"type": "text", "text": "forty-two it is"}]}}]}"#;
    assert_eq!(json_answer(OpenAiChat, whole), words(&["forty-two it is"]));
    let parts = [
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hmm"}]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"forty-tw"}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"o it is"}}]}"#,
    ];
    assert_eq!(event_answer(OpenAiChat, &parts), words(&["forty-two it is"]));
}

#[test]
fn an_instruction_between_calls_and_results_is_passed_over() {
    let body = r#"{"messages": [{"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "developer", "content": "mind the gap"},
        {"role": "tool", "content": "went there"}]}"#;
    let turn = decode("/v1/chat/completions", body).unwrap();
    assert_eq!((turn.input, turn.tools), (fingerprint(&["went there"]), results(&[("f", "{}")])));
}
