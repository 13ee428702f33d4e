//! OpenAI Responses: the input and the output are lists of items.

use agent_kill_switch::turn::Format::OpenAiResponses;
use agent_kill_switch::turn::ToolTurn;
use agent_kill_switch::wire::Counting::{Literal, Progress};

use crate::support::*;

const PATH: &str = "/v1/responses";

#[test]
fn the_new_items_after_a_previous_response_are_the_input() {
    let body = r#"{"previous_response_id": "resp_1", "input": [
        {"type": "function_call_output", "call_id": "c1", "output": "it works now"}]}"#;
    for counting in [Literal, Progress] {
        let turn = decode_as(counting, PATH, body).unwrap();
        assert_eq!((turn.input, turn.tools), (fingerprint(&["it works now"]), ToolTurn::None), "{counting:?}");
    }
    let text = r#"{"previous_response_id": "resp_1", "input": "go on then"}"#;
    assert_eq!(input(PATH, text), fingerprint(&["go on then"]));
}

#[test]
fn references_to_items_are_ignored() {
    let body = r#"{"input": [{"role": "user", "content": "start here"}, {"type": "item_reference", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c1", "output": "and a result"}]}"#;
    assert_eq!(decode(PATH, body).unwrap().input, fingerprint(&["start here", "and a result"]));
}

#[test]
fn calls_before_the_text_of_an_answer_are_part_of_it() {
    let call = r#"{"type": "mcp_call", "id": "mcp_1", "name": "search", "arguments": "{}", "output": "none"}"#;
    let body = format!(
        r#"{{"input": [{{"role": "user", "content": "go"}}, {call}, {{"role": "assistant", "content": "Nothing yet."}},
        {{"role": "user", "content": "try again"}}]}}"#
    );
    let turn = decode(PATH, &body).unwrap();
    assert_eq!((turn.input, turn.tool_names), (fingerprint(&["try again"]), vec!["search".to_owned()]));
}

#[test]
fn every_type_of_call_that_the_client_runs_is_a_call() {
    for (call, output, expected) in [
        (
            r#"{"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls -l"}"#,
            r#"{"type": "custom_tool_call_output", "call_id": "c", "output": "total 8"}"#,
            ("sh", "ls -l"),
        ),
        (
            r#"{"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}, "status": "completed"}"#,
            r#"{"type": "local_shell_call_output", "call_id": "c", "output": "total 8"}"#,
            ("local_shell_call", r#"{"command": ["ls"], "type": "exec"}"#),
        ),
        (
            r#"{"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}"#,
            r#"{"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "total 8", "stderr": ""}]}"#,
            ("shell_call", r#"{"commands": ["ls"]}"#),
        ),
    ] {
        let body = format!(r#"{{"input": [{{"role": "user", "content": "go"}}, {call}, {output}]}}"#);
        let turn = decode(PATH, &body).unwrap();
        assert_eq!((turn.input, turn.tools), (fingerprint(&["total 8"]), results(&[expected])), "{body}");
        let answer = json_answer(OpenAiResponses, &format!(r#"{{"output": [{call}]}}"#));
        assert_eq!(answer, calls(&[expected]), "{call}");
    }
}

#[test]
fn a_search_that_the_provider_runs_is_not_a_call() {
    let body = r#"{"output": [{"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "rain"}},
        {"type": "message", "content": [{"type": "output_text", "text": "it will rain"}]}]}"#;
    assert_eq!(json_answer(OpenAiResponses, body), words(&["it will rain"]));
}

#[test]
fn a_screenshot_is_compared_byte_by_byte() {
    let read = |image: &str| {
        let body = format!(
            r#"{{"input": [{{"type": "computer_call", "call_id": "c", "action": {{"type": "click", "x": 1}}}},
            {{"type": "computer_call_output", "call_id": "c", "output": {{"type": "computer_screenshot", "image_url": "data:image/png;base64,{image}"}}}}]}}"#
        );
        decode(PATH, body).unwrap()
    };
    assert_opaque(|image| read(image).input);
    assert_eq!(read("i").tools, results(&[("computer_call", r#"{"type": "click", "x": 1}"#)]));
}

#[test]
fn a_refusal_is_an_answer() {
    let whole = r#"{"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot help"}]}]}"#;
    let parts = [
        r#"{"type":"response.refusal.delta","delta":"I can"}"#,
        r#"{"type":"response.refusal.delta","delta":"not help"}"#,
        r#"{"type":"response.refusal.done","refusal":"I cannot help"}"#,
    ];
    assert_whole_and_streamed(OpenAiResponses, whole, &parts, words(&["I cannot help"]));
}
