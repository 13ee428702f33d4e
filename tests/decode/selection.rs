//! Which text of a request is its input, for both ways of counting.

use agent_kill_switch::turn::{ToolTurn, Unreadable};
use agent_kill_switch::wire::Counting::{Literal, Progress};

use crate::support::*;

const CHAT: &str = "/v1/chat/completions";

#[test]
fn the_input_is_the_last_user_message_or_the_last_message() {
    for (messages, expected) in [
        (
            r#"{"role": "user", "content": "the first question"}, {"role": "assistant", "content": "an answer"},
               {"role": "user", "content": "the second question"}"#,
            "the second question",
        ),
        (r#"{"role": "system", "content": "be brief and kind"}"#, "be brief and kind"),
        (
            r#"{"role": "system", "content": "be brief"}, {"role": "assistant", "content": "I was saying"}"#,
            "I was saying",
        ),
        // The start of an answer, which the model is asked to continue.
        (
            r#"{"role": "user", "content": "write a poem on rain"}, {"role": "assistant", "content": "Drops"}"#,
            "write a poem on rain",
        ),
    ] {
        let body = format!(r#"{{"messages": [{messages}]}}"#);
        assert_eq!(input(CHAT, &body), fingerprint(&[expected]), "{body}");
    }
}

#[test]
fn content_may_be_a_string_or_blocks() {
    for content in [
        r#""one question for you""#,
        r#"[{"type": "text", "text": "one question for you"}]"#,
        r#"[{"text": "one question for you"}]"#,
        r#"["one question for you"]"#,
        r#"{"type": "text", "text": "one question for you"}"#,
        r#"[{"type": "input_text", "text": "one question for you"}]"#,
        r#"[{"text": "one question for you", "type": "text", "cache_control": {"type": "ephemeral"}}]"#,
    ] {
        let body = format!(r#"{{"messages": [{{"content": {content}, "role": "user"}}]}}"#);
        assert_eq!(input(CHAT, &body), fingerprint(&["one question for you"]), "{body}");
    }
}

#[test]
fn two_blocks_do_not_form_one_word() {
    let body = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "over"}, {"type": "text", "text": "time"}]}]}"#;
    assert_eq!(input(CHAT, body), fingerprint(&["over", "time"]));
    assert_ne!(input(CHAT, body), fingerprint(&["overtime"]));
}

#[test]
fn null_content_is_empty_text() {
    for content in ["null", "[]", r#""""#, "[null]"] {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#);
        assert_eq!(input(CHAT, &body), fingerprint(&[]), "{body}");
    }
    assert_eq!(input(CHAT, r#"{"messages": [{"role": "user"}]}"#), fingerprint(&[]));
}

#[test]
fn prompt_and_input_are_read_if_there_are_no_messages() {
    for (path, body) in [
        ("/v1/completions", r#"{"prompt": "tell me a story"}"#),
        ("/v1/completions", r#"{"prompt": ["tell me a story"]}"#),
        ("/v1/responses", r#"{"input": "tell me a story"}"#),
        (CHAT, r#"{"messages": [], "prompt": "tell me a story"}"#),
        (CHAT, r#"{"messages": null, "prompt": "tell me a story"}"#),
        (CHAT, r#"{"prompt": "tell me a story", "messages": null, "input": []}"#),
    ] {
        assert_eq!(input(path, body), fingerprint(&["tell me a story"]), "{body}");
    }
    let several = r#"{"prompt": ["one two", "three"]}"#;
    assert_eq!(input("/v1/completions", several), fingerprint(&["one two", "three"]));
    assert_eq!(input(CHAT, r#"{"model": "m", "messages": []}"#), fingerprint(&[]), "the envelope is not the input");
}

#[test]
fn loading_a_model_of_ollama_is_not_a_call() {
    for (path, body) in [
        ("/api/chat", r#"{"model": "llama3.2", "messages": []}"#),
        ("/api/generate", r#"{"model": "llama3.2", "prompt": "", "keep_alive": 0}"#),
        ("/api/generate", r#"{"model": "llama3.2"}"#),
    ] {
        assert_eq!(decode(path, body), Err(Unreadable::NotACall), "{body}");
    }
    assert!(decode("/api/generate", r#"{"prompt": "", "images": ["aGk="]}"#).is_ok());
}

#[test]
fn messages_are_preferred_to_prompt_and_input() {
    for body in [
        r#"{"prompt": "no", "input": "no", "messages": [{"role": "user", "content": "listen to me"}]}"#,
        r#"{"messages": [{"role": "user", "content": "listen to me"}], "prompt": "no", "input": "no"}"#,
    ] {
        for path in [CHAT, "/v1/completions", "/v1/responses", "/"] {
            assert_eq!(input(path, body), fingerprint(&["listen to me"]), "{path} {body}");
        }
    }
}

#[test]
fn progress_counting_reads_everything_since_the_model_spoke() {
    let body = r#"{"messages": [
        {"role": "user", "content": "start"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]},
        {"role": "tool", "content": "the result"},
        {"role": "system", "content": "a reminder"},
        {"role": "user", "content": "and be quick about it"}]}"#;
    let turn = decode(CHAT, body).unwrap();
    assert_eq!(turn.input, fingerprint(&["the result", "and be quick about it"]));
    assert_eq!(turn.tools, results(&[("a", "{}")]));
    let turn = decode_as(Literal, CHAT, body).unwrap();
    assert_eq!(turn.input, fingerprint(&["and be quick about it"]));
}

#[test]
fn calls_without_results_are_a_tool_turn_only_for_literal_counting() {
    let body = r#"{"messages": [
        {"role": "user", "content": "start"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]},
        {"role": "user", "content": "never mind"}]}"#;
    assert_eq!(decode(CHAT, body).unwrap().tools, ToolTurn::None);
    assert_eq!(decode_as(Literal, CHAT, body).unwrap().tools, results(&[("a", "{}")]));
}

#[test]
fn calls_of_an_earlier_answer_are_ignored() {
    let body = r#"{"messages": [
        {"role": "user", "content": "start"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "old", "arguments": "{}"}}]},
        {"role": "tool", "content": "old result"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "new", "arguments": "{}"}}]},
        {"role": "tool", "content": "new result"}]}"#;
    for counting in [Literal, Progress] {
        assert_eq!(decode_as(counting, CHAT, body).unwrap().tools, results(&[("new", "{}")]), "{counting:?}");
    }
}

#[test]
fn an_image_is_compared_byte_by_byte() {
    assert_opaque(|data| {
        let body = format!(
            r#"{{"messages": [{{"role": "user", "content": [
                {{"type": "text", "text": "what do you see here?"}},
                {{"type": "image_url", "image_url": {{"url": "data:image/png;base64,{data}"}}}}]}}]}}"#
        );
        input(CHAT, body)
    });
}

#[test]
fn the_order_of_the_members_of_a_block_does_not_matter() {
    let body = |block: &str| format!(r#"{{"messages": [{{"role": "user", "content": [{block}]}}]}}"#);
    let one = body(r#"{"type": "text", "text": "look at this", "title": "a report"}"#);
    let other = body(r#"{"title": "a report", "text": "look at this", "type": "text"}"#);
    assert_eq!(input(CHAT, one), input(CHAT, other));
}
