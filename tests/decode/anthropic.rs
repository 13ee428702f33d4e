//! Anthropic Messages: content in blocks, results in users' messages.

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
fn a_results_content_takes_any_shape() {
    for content in [
        r#""the file is long""#,
        r#"[{"type": "text", "text": "the file is long"}]"#,
        r#"[{"type": "text", "text": "the file"}, {"type": "text", "text": "is long"}]"#,
    ] {
        let body = with_result(&format!(r#"{{"type": "tool_result", "tool_use_id": "t1", "content": {content}}}"#));
        assert_eq!(decode(PATH, &body).unwrap().input, fingerprint(&["the file is long"]), "{content}");
    }
}

#[test]
fn an_empty_result_is_empty() {
    for rest in ["", r#", "content": """#, r#", "content": []"#, r#", "content": null, "is_error": false"#] {
        let body = with_result(&format!(r#"{{"type": "tool_result", "tool_use_id": "t1"{rest}}}"#));
        let turn = decode(PATH, &body).unwrap();
        assert_eq!((turn.input, turn.tools), (fingerprint(&[]), results(&[("f", r#"{"a": 1}"#)])), "{rest}");
    }
}

#[test]
fn an_image_in_a_result_is_opaque() {
    let read = |data: &str| {
        let block = format!(
            r#"{{"type": "tool_result", "tool_use_id": "t1", "content": [
            {{"type": "image", "source": {{"type": "base64", "media_type": "image/png", "data": "{data}"}}}}]}}"#
        );
        decode(PATH, with_result(&block)).unwrap().input
    };
    // As text, both would be the same id.
    assert_eq!(read("iVBOR1w0KGgoAAAA1NS"), read("iVBOR1w0KGgoAAAA1NS"));
    assert_ne!(read("iVBOR1w0KGgoAAAA1NS"), read("iVBOR2w0KGgoAAAA2NS"));
}

#[test]
fn to_the_letter_a_bare_result_is_no_user_message_but_one_with_words_is() {
    let result = r#"{"type": "tool_result", "tool_use_id": "t1", "content": "done"}"#;
    let literal = |body: String| decode_as(Literal, PATH, body).unwrap().input;
    assert_eq!(literal(with_result(result)), fingerprint(&["begin the work"]));
    let mixed = format!(r#"{result}, {{"type": "text", "text": "now do the other thing"}}"#);
    assert_eq!(literal(with_result(&mixed)), fingerprint(&["done", "now do the other thing"]));
}

#[test]
fn fresh_ids_of_calls_say_nothing() {
    let body = with_result(r#"{"type": "tool_result", "tool_use_id": "t1", "content": "done"}"#);
    assert_eq!(decode(PATH, body.replace("t1", "toolu_9Zz")), decode(PATH, &body));
}

#[test]
fn a_tool_without_arguments_is_the_same_streamed() {
    let whole = r#"{"type": "message", "content": [{"type": "tool_use", "id": "t", "name": "now", "input": {}}]}"#;
    let parts = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"now","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
    ];
    assert_eq!(json_answer(Anthropic, whole), calls(&[("now", "{}")]));
    assert_eq!(event_answer(Anthropic, &parts), calls(&[("now", "{}")]));
}

#[test]
fn citations_and_signatures_are_no_words() {
    let parts = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the sky is blue"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"sky"}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#,
    ];
    assert_eq!(event_answer(Anthropic, &parts), words(&["the sky is blue"]));
}
