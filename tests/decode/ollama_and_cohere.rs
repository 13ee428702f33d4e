//! Ollama and Cohere: what only they do.

use agent_kill_switch::turn::Format::{Cohere, OllamaChat, OllamaGenerate};

use crate::support::*;

#[test]
fn images_beside_the_content_are_opaque() {
    let chat = |image: &str| {
        input(
            "/api/chat",
            format!(r#"{{"messages": [{{"role": "user", "content": "what is it?", "images": ["{image}"]}}]}}"#),
        )
    };
    let generate =
        |image: &str| input("/api/generate", format!(r#"{{"prompt": "what is it?", "images": ["{image}"]}}"#));
    for read in [&chat as &dyn Fn(&str) -> _, &generate] {
        assert_eq!(read("iVBOR1"), read("iVBOR1"));
        assert_ne!(read("iVBOR1"), read("iVBOR2"));
    }
}

#[test]
fn no_images_are_no_images() {
    let body = r#"{"messages": [{"role": "user", "content": "what is it?", "images": null}]}"#;
    assert_eq!(input("/api/chat", body), fingerprint(&["what is it?"]));
}

#[test]
fn one_answer_of_several_lines_and_one_line_are_alike() {
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
fn a_document_as_object_or_as_text_is_a_result() {
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
fn a_string_of_content_is_an_answer() {
    assert_eq!(
        json_answer(Cohere, r#"{"message": {"role": "assistant", "content": "as you wish"}}"#),
        words(&["as you wish"])
    );
}
