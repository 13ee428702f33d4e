//! Gemini: answers streamed as a JSON array, and its own names for members.

use agent_kill_switch::turn::Answer;
use agent_kill_switch::turn::Format::Gemini;

use crate::support::*;

const PATH: &str = "/v1beta/models/gemini-2.5-flash:generateContent";

#[test]
fn a_stream_as_an_array_is_decoded_to_the_same_answer() {
    let (text, tools) = (fixture("gemini", "answer_text_array.json"), fixture("gemini", "answer_tools_array.json"));
    for size in [1, 2, 3, 5, 64, 100_000] {
        let read = |body: &[u8]| answer_in_chunks(Gemini, "application/json; charset=UTF-8", body.chunks(size));
        assert_eq!(read(&text), words(&[ANSWER]), "{size}");
        let expected = Answer::Tools { text: Some(fingerprint(&[BESIDE])), signature: signature(&[FIND, LOOK]) };
        assert_eq!(read(&tools), expected, "{size}");
    }
}

#[test]
fn results_are_recognised_in_both_spellings() {
    for name in ["functionResponse", "function_response"] {
        let body = format!(
            r#"{{"contents": [{{"role": "model", "parts": [{{"functionCall": {{"name": "f", "args": {{}}}}}}]}},
            {{"role": "user", "parts": [{{"{name}": {{"id": "1", "name": "f", "response": {{"output": "all good"}}}}}}]}}]}}"#
        );
        let turn = decode(PATH, &body).unwrap();
        assert_eq!(turn.input, fingerprint(&[r#"{"output": "all good"}"#]), "{name}");
        assert_eq!(turn.tools, results(&[("f", "{}")]), "{name}");
    }
}

#[test]
fn a_message_without_a_role_is_a_user_message() {
    assert_eq!(input(PATH, r#"{"contents": [{"parts": [{"text": "who is it?"}]}]}"#), fingerprint(&["who is it?"]));
}

#[test]
fn inline_data_is_compared_byte_by_byte() {
    assert_opaque(|data| {
        let part = format!(r#"{{"inlineData": {{"mimeType": "image/png", "data": "{data}"}}}}"#);
        input(PATH, format!(r#"{{"contents": [{{"parts": [{part}]}}]}}"#))
    });
}

#[test]
fn a_blocked_prompt_has_no_answer() {
    assert_eq!(json_answer(Gemini, r#"{"promptFeedback": {"blockReason": "SAFETY"}}"#), Answer::Unknown);
    assert_eq!(json_answer(Gemini, r#"{"candidates": [{"finishReason": "SAFETY"}]}"#), Answer::Unknown);
}
