//! What only Ollama and Cohere do.

use agent_kill_switch::turn::Format::{Cohere, OllamaChat, OllamaGenerate};

use crate::support::*;

#[test]
fn images_beside_the_content_are_compared_byte_by_byte() {
    let message =
        |images: &str| format!(r#"{{"messages": [{{"role": "user", "content": "what is it?", "images": {images}}}]}}"#);
    assert_opaque(|image| input("/api/chat", message(&format!(r#"["{image}"]"#))));
    assert_opaque(|image| input("/api/generate", format!(r#"{{"prompt": "what is it?", "images": ["{image}"]}}"#)));
    assert_eq!(input("/api/chat", message("null")), fingerprint(&["what is it?"]));
}

#[test]
fn an_answer_is_the_same_in_one_line_and_in_several() {
    let lines = "{\"response\":\"one \"}\n{\"response\":\"two three\"}\n{\"response\":\"\",\"done\":true}\n";
    assert_eq!(answer(OllamaGenerate, "application/x-ndjson", lines), words(&["one two three"]));
    assert_eq!(json_answer(OllamaGenerate, "{\"response\":\"one two three\"}"), words(&["one two three"]));
}

#[test]
fn identical_calls_on_several_lines_count_once() {
    let line = r#"{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}"#;
    assert_eq!(answer(OllamaChat, "application/x-ndjson", format!("{line}\n{line}\n")), calls(&[("f", "{\"a\":1}")]));
}

#[test]
fn a_document_in_a_result_may_be_an_object_or_text() {
    for data in [r#""it is 22 degrees in the sun""#, r#"{"it": "is 22 degrees", "in": "the sun"}"#] {
        let body = format!(
            r#"{{"messages": [{{"role": "assistant", "tool_calls": [{{"function": {{"name": "f", "arguments": "{{}}"}}}}]}},
            {{"role": "tool", "tool_call_id": "f1", "content": [{{"type": "document", "document": {{"id": "1", "data": {data}}}}}]}}]}}"#
        );
        let turn = decode("/v2/chat", &body).unwrap();
        assert_eq!(turn.input, fingerprint(&["it is 22 degrees in the sun"]), "{data}");
        assert_eq!(turn.tools, results(&[("f", "{}")]), "{data}");
    }
}

#[test]
fn the_content_of_an_answer_may_be_a_string() {
    assert_eq!(
        json_answer(Cohere, r#"{"message": {"role": "assistant", "content": "as you wish"}}"#),
        words(&["as you wish"])
    );
}
