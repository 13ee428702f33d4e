//! Which words of a request are its fresh input, by either way of counting.

use agent_kill_switch::turn::ToolTurn;
use agent_kill_switch::wire::Counting::{Literal, Progress};

use crate::support::*;

const CHAT: &str = "/v1/chat/completions";

#[test]
fn the_last_user_message_is_the_input() {
    let body = r#"{"messages": [
        {"role": "user", "content": "the first question"},
        {"role": "assistant", "content": "an answer"},
        {"role": "user", "content": "the second question"}]}"#;
    assert_eq!(input(CHAT, body), fingerprint(&["the second question"]));
}

#[test]
fn without_a_user_message_the_last_message_is_the_input() {
    for (body, expected) in [
        (r#"{"messages": [{"role": "system", "content": "be brief and kind"}]}"#, "be brief and kind"),
        (
            r#"{"messages": [{"role": "system", "content": "be brief"}, {"role": "assistant", "content": "I was saying"}]}"#,
            "I was saying",
        ),
    ] {
        assert_eq!(input(CHAT, body), fingerprint(&[expected]), "{body}");
    }
}

#[test]
fn string_and_block_content_are_alike() {
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
fn words_of_two_blocks_do_not_run_together() {
    let body = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "over"}, {"type": "text", "text": "time"}]}]}"#;
    assert_eq!(input(CHAT, body), fingerprint(&["over", "time"]));
    assert_ne!(input(CHAT, body), fingerprint(&["overtime"]));
}

#[test]
fn null_content_is_empty() {
    for content in ["null", "[]", r#""""#, "[null]"] {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#);
        assert_eq!(input(CHAT, &body), fingerprint(&[]), "{body}");
    }
    assert_eq!(input(CHAT, r#"{"messages": [{"role": "user"}]}"#), fingerprint(&[]));
}

#[test]
fn prompt_and_input_speak_when_there_are_no_messages() {
    for (path, body) in [
        ("/v1/completions", r#"{"prompt": "tell me a story"}"#),
        ("/v1/completions", r#"{"prompt": ["tell me a story"]}"#),
        ("/v1/responses", r#"{"input": "tell me a story"}"#),
        ("/somewhere", r#"{"input": "tell me a story", "temperature": 1}"#),
        ("/somewhere", r#"{"prompt": "tell me a story"}"#),
        (CHAT, r#"{"messages": [], "prompt": "tell me a story"}"#),
        (CHAT, r#"{"messages": null, "prompt": "tell me a story"}"#),
        (CHAT, r#"{"prompt": "tell me a story", "messages": null, "input": []}"#),
    ] {
        assert_eq!(input(path, body), fingerprint(&["tell me a story"]), "{body}");
    }
}

#[test]
fn messages_win_over_prompt_and_input() {
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
fn several_prompts_are_parts() {
    assert_eq!(input("/v1/completions", r#"{"prompt": ["one two", "three"]}"#), fingerprint(&["one two", "three"]));
}

#[test]
fn nothing_asked_by_a_known_path_is_empty_not_an_envelope() {
    let body = r#"{"model": "llama3.2", "messages": []}"#;
    assert_eq!(input("/api/chat", body), fingerprint(&[]));
}

#[test]
fn progress_takes_all_that_came_since_the_model_spoke() {
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
fn the_beginning_of_an_answer_is_not_what_is_new() {
    let body = r#"{"messages": [
        {"role": "user", "content": "write a poem on rain"},
        {"role": "assistant", "content": "Drops"}]}"#;
    assert_eq!(input("/v1/messages", body), fingerprint(&["write a poem on rain"]));
}

#[test]
fn calls_without_results_are_a_tool_turn_only_to_the_letter() {
    let body = r#"{"messages": [
        {"role": "user", "content": "start"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]},
        {"role": "user", "content": "never mind"}]}"#;
    assert_eq!(decode(CHAT, body).unwrap().tools, ToolTurn::None);
    assert_eq!(decode_as(Literal, CHAT, body).unwrap().tools, results(&[("a", "{}")]));
}

#[test]
fn calls_of_an_earlier_answer_are_not_these_calls() {
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
fn an_image_is_opaque_the_same_only_if_every_byte_is() {
    let with = |url: &str| {
        let body = format!(
            r#"{{"messages": [{{"role": "user", "content": [
                {{"type": "text", "text": "what do you see here?"}},
                {{"type": "image_url", "image_url": {{"url": "data:image/png;base64,{url}"}}}}]}}]}}"#
        );
        input(CHAT, body)
    };
    assert_eq!(with("iVBORw0KGgo111="), with("iVBORw0KGgo111="));
    assert_ne!(with("iVBORw0KGgo111="), with("iVBORw0KGgo222="));
}

#[test]
fn the_order_of_a_blocks_members_says_nothing() {
    let body = |block: &str| format!(r#"{{"messages": [{{"role": "user", "content": [{block}]}}]}}"#);
    let one = body(r#"{"type": "text", "text": "look at this", "title": "a report"}"#);
    let other = body(r#"{"title": "a report", "text": "look at this", "type": "text"}"#);
    assert_eq!(input(CHAT, one), input(CHAT, other));
}

#[test]
fn a_body_of_scalars_costs_no_more_than_a_few_messages() {
    let body = format!(r#"{{"messages": [{}0]}}"#, "1,".repeat(1_000_000));
    assert!(decode(CHAT, &body).is_ok());
    assert!(decode_as(Literal, CHAT, &body).is_ok());
}
