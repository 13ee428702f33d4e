//! Anthropic Messages: content comes in blocks, and tool results in the user's messages.

use std::rc::Rc;

use agent_kill_switch::decode::answer::{AnswerReader, AnswerState, ResponseHead};
use agent_kill_switch::turn::Format::Anthropic;
use agent_kill_switch::wire::Counting::Literal;

use crate::support::*;

const PATH: &str = "/v1/messages";

fn with_result(block: &str) -> String {
    format!(
        r#"{{"messages": [{{"role": "user", "content": "begin the work"}},
        {{"role": "assistant", "content": [{{"type": "tool_use", "id": "t1", "name": "f", "input": {{"a": 1}}}}]}},
        {{"role": "user", "content": [{block}]}}]}}"#
    )
}

#[test]
fn the_content_of_a_result_may_have_any_shape() {
    for (rest, expected) in [
        (r#", "content": "the file is long""#, "the file is long"),
        (r#", "content": [{"type": "text", "text": "the file is long"}]"#, "the file is long"),
        (
            r#", "content": [{"type": "text", "text": "the file"}, {"type": "text", "text": "is long"}]"#,
            "the file is long",
        ),
        ("", ""),
        (r#", "content": """#, ""),
        (r#", "content": []"#, ""),
        (r#", "content": null, "is_error": false"#, ""),
    ] {
        let body = with_result(&format!(r#"{{"type": "tool_result", "tool_use_id": "t1"{rest}}}"#));
        let turn = decode(PATH, &body).unwrap();
        assert_eq!((turn.input, turn.tools), (fingerprint(&[expected]), results(&[("f", r#"{"a": 1}"#)])), "{rest}");
    }
}

#[test]
fn an_image_in_a_result_is_compared_byte_by_byte() {
    assert_opaque(|data| {
        let block = format!(
            r#"{{"type": "tool_result", "tool_use_id": "t1", "content": [
            {{"type": "image", "source": {{"type": "base64", "media_type": "image/png", "data": "{data}"}}}}]}}"#
        );
        decode(PATH, with_result(&block)).unwrap().input
    });
}

#[test]
fn literal_counting_takes_a_result_for_a_user_message_only_if_it_has_text_beside_it() {
    let result = r#"{"type": "tool_result", "tool_use_id": "t1", "content": "done"}"#;
    let literal = |body: String| decode_as(Literal, PATH, body).unwrap().input;
    assert_eq!(literal(with_result(result)), fingerprint(&["begin the work"]));
    let mixed = format!(r#"{result}, {{"type": "text", "text": "now do the other thing"}}"#);
    assert_eq!(literal(with_result(&mixed)), fingerprint(&["done", "now do the other thing"]));
}

#[test]
fn the_ids_of_calls_do_not_matter() {
    let body = with_result(r#"{"type": "tool_result", "tool_use_id": "t1", "content": "done"}"#);
    assert_eq!(decode(PATH, body.replace("t1", "toolu_9Zz")), decode(PATH, &body));
}

#[test]
fn a_tool_without_arguments_is_the_same_whole_and_streamed() {
    let whole = r#"{"type": "message", "content": [{"type": "tool_use", "id": "t", "name": "now", "input": {}}]}"#;
    let parts = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"now","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
    ];
    assert_whole_and_streamed(Anthropic, whole, &parts, calls(&[("now", "{}")]));
}

#[test]
fn citations_and_signatures_are_not_text() {
    let parts = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the sky is blue"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"sky"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#,
    ];
    assert_eq!(event_answer(Anthropic, &parts), words(&["the sky is blue"]));
}

#[test]
fn the_model_has_finished_when_a_reason_for_it_is_given() {
    let head = ResponseHead { status: 200, content_type: b"text/event-stream" };
    let mut reader = AnswerReader::new(Anthropic, head, Rc::from([]), CAP);
    for (event, state) in [
        (r#"{"type":"message_start","message":{"content":[],"stop_reason":null}}"#, AnswerState::Partial),
        (r#"{"type":"content_block_delta","index":0,"delta":{"text":"hello there"}}"#, AnswerState::Partial),
        (r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":1}}"#, AnswerState::Partial),
        (
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
            AnswerState::Finished,
        ),
        (r#"{"type":"message_stop"}"#, AnswerState::Ended),
    ] {
        reader.push(format!("data: {event}\n\n").as_bytes());
        assert_eq!(reader.state(), state, "{event}");
    }
}
