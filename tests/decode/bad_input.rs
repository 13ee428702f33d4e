//! Input that no client should send, and what happens to it.

use agent_kill_switch::turn::{Answer, Format, ToolTurn, Unreadable};
use agent_kill_switch::wire::Counting::Literal;
use proptest::prelude::*;

use crate::support::*;

const CHAT: &str = "/v1/chat/completions";

fn chat(content: &str) -> String {
    format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#)
}

#[test]
fn an_empty_body_is_empty() {
    for body in ["", " ", "\r\n\t ", "\u{feff}", "\u{feff} \n"] {
        assert_eq!(decode(CHAT, body), Err(Unreadable::Empty), "{body:?}");
    }
}

#[test]
fn a_body_without_a_known_shape_is_read_as_text() {
    for body in [
        "null",
        "true",
        "42",
        "-1.5e3",
        "nonsense",
        "\"a string\"",
        "hello there, model",
        "a=1&b=2",
        "\"C:\\path\" and \"quotes\"",
        "<xml>tags</xml>",
        "--boundary",
    ] {
        assert_eq!(decode("/anything", body), Err(Unreadable::NotACall), "{body}");
        let turn = decode_any(CHAT, body).unwrap();
        assert_eq!((turn.format, turn.input), (Format::Other, fingerprint(&[body])), "{body}");
    }
    for body in [r#"{"query": "what is\nnew?"}"#, r#"["what is", "new?"]"#, r#"{}"#, "[]"] {
        assert_eq!(decode("/anything", body), Err(Unreadable::NotACall), "{body}");
        let turn = decode_any("/anything", body).unwrap();
        let expected = fingerprint(&[&body.replace("\\n", "\n")]);
        assert_eq!((turn.format, turn.input), (Format::Other, expected), "{body}");
    }
}

#[test]
fn a_body_at_the_path_of_a_call_that_is_not_json_is_malformed() {
    for body in ["hello there, model", "a=1&b=2", "<xml>tags</xml>", "\u{1f}\u{8b}\u{8}"] {
        assert_eq!(decode(CHAT, body), Err(Unreadable::Malformed), "{body}");
    }
    for body in ["null", "true", "42", "\"a string\""] {
        assert_eq!(decode(CHAT, body), Err(Unreadable::NotACall), "{body}");
    }
}

#[test]
fn a_body_that_begins_like_json_but_is_invalid_is_malformed() {
    for body in [
        "{",
        "[",
        "{}}",
        "{]",
        "[1, 2], [3]",
        "{\"messages\": [}",
        "{\"messages\"}",
        "{\"messages\": }",
        "{messages: []}",
        "{\"messages\": [] \"model\": 1}",
        "{\"messages\": [],}",
        "{,\"messages\": []}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"},]}",
        "{\"a\": 1}\n{\"b\": 2}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"unclosed}]}",
        "{\"messages\": [{\"role\": \"user\" \"content\": \"x\"}]}",
    ] {
        assert_eq!(decode(CHAT, body), Err(Unreadable::Malformed), "{body}");
    }
}

#[test]
fn ten_thousand_levels_of_nesting_are_read_as_text() {
    let deep = format!("{}\"deep down\"{}", "[".repeat(10_000), "]".repeat(10_000));
    let deeper = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    for value in [&deep, &deeper] {
        for body in [value.clone(), chat(value), format!(r#"{{"messages": {value}}}"#), format!(r#"{{"x": {value}}}"#)]
        {
            assert!(decode_any(CHAT, &body).is_ok());
            assert_ne!(decode_as(Literal, CHAT, &body), Err(Unreadable::Malformed));
        }
    }
    assert_eq!(decode(CHAT, chat(&deep)).unwrap().input, fingerprint(&[&deep]));
}

#[test]
fn ten_thousand_levels_of_arguments_are_read() {
    let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let body = format!(
        r#"{{"messages": [{{"role": "assistant", "content": [{{"type": "tool_use", "name": "f", "input": {deep}}}]}},
           {{"role": "user", "content": [{{"type": "tool_result", "content": "x"}}]}}]}}"#
    );
    assert_eq!(decode("/v1/messages", body).unwrap().tools, results(&[("f", &deep)]));
}

#[test]
fn ten_megabytes_of_open_brackets_are_malformed() {
    for open in ["[", "{\"messages\":["] {
        let body = open.repeat((10 << 20) / open.len());
        assert_eq!(decode(CHAT, &body), Err(Unreadable::Malformed), "{open}");
        assert_eq!(json_answer(Format::OpenAiChat, &body), Answer::Unknown, "{open}");
    }
}

#[test]
fn large_bodies_of_any_kind_take_linear_time() {
    const N: usize = 1 << 17;
    for body in [
        chat(&format!("\"{}\"", "\\\"".repeat(N))),
        chat(&format!("\"{}\"", "\\\\".repeat(N))),
        chat(&format!("[{}1]", "[],".repeat(N))),
        format!("{{{}\"messages\": []}}", "\"key\":1,".repeat(N / 2)),
        format!(
            r#"{{"messages": [{{"role": "assistant", "tool_calls": [{}{{}}]}}, {{"role": "tool", "content": ""}}]}}"#,
            (0..N / 8).map(|i| format!("{{\"name\":\"{i}\"}},")).collect::<String>()
        ),
        format!("{{\"messages\": [{}1]}}", "{\"role\":\"user\"},".repeat(N / 8)),
        format!("{{\"messages\": [{}0]}}", "1,".repeat(1_000_000)),
    ] {
        assert!(decode(CHAT, &body).is_ok());
        assert!(decode_as(Literal, CHAT, &body).is_ok());
    }
}

#[test]
fn numbers_in_place_of_strings_are_read_as_text() {
    assert_eq!(input(CHAT, chat("404")), fingerprint(&["404"]));
    assert_eq!(input(CHAT, chat("[1, true]")), fingerprint(&["1", "true"]));
    assert_eq!(input(CHAT, r#"{"messages": 17}"#), fingerprint(&["17"]));
    assert_eq!(input("/v1/completions", r#"{"prompt": [101, 2023]}"#), fingerprint(&["101", "2023"]));
    assert_eq!(input(CHAT, r#"{"messages": [{"role": 7, "content": "who am I?"}]}"#), fingerprint(&["who am I?"]));
    let body = r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 5, "arguments": 6}}]},
        {"role": "tool", "content": "x"}]}"#;
    assert_eq!(decode(CHAT, body).unwrap().tools, results(&[("", "6")]));
}

#[test]
fn the_last_of_duplicate_keys_counts() {
    for body in [
        r#"{"messages": [{"role": "user", "content": "one"}], "messages": [{"role": "user", "content": "the last one"}]}"#,
        r#"{"messages": [{"role": "assistant", "role": "user", "content": "one", "content": "the last one"}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"text": "one", "type": "text", "text": "the last one"}]}]}"#,
        r#"{"messages": [{"role": "user", "content": "one", "c\u006fntent": "the last one"}]}"#,
    ] {
        assert_eq!(input(CHAT, body), fingerprint(&["the last one"]), "{body}");
    }
    let body = r#"{"choices": [], "choices": [{"message": {"content": "one", "content": "the last one"}}]}"#;
    assert_eq!(json_answer(Format::OpenAiChat, body), words(&["the last one"]));
    let call = r#"{"jsonrpc": "2.0", "method": "tools/list", "method": "tools/call",
        "params": {"name": "a", "name": "b", "arguments": {}}}"#;
    assert_eq!(decode("/mcp", call).unwrap().tools, ToolTurn::Call(signature(&[("b", "{}")])));
}

#[test]
fn escaped_keys_and_names_are_recognised() {
    for body in [
        r#"{"me\u0073sages": [{"role": "user", "content": "hear me out"}]}"#,
        r#"{"\u006D\u0065\u0073\u0073\u0061\u0067\u0065\u0073": [{"role": "user", "content": "hear me out"}]}"#,
        r#"{"messages": [{"r\u006fle": "us\u0065r", "\u0063ontent": "hear me out"}, {"role": "\u0061ssistant"}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"typ\u0065": "t\u0065xt", "t\u0065xt": "hear me out"}]}]}"#,
        r#"{"inpu\u0074": [{"typ\u0065": "message", "content": "hear me out"}]}"#,
    ] {
        assert_eq!(input(CHAT, body), fingerprint(&["hear me out"]), "{body}");
    }
    let items = r#"{"input": [{"type": "function\u005fcall", "name": "\u0066", "arguments": "{}"},
        {"type": "function_call\u005foutput", "output": "done"}]}"#;
    assert_eq!(decode("/v1/responses", items).unwrap().tools, results(&[("f", "{}")]));
    let event = r#"{"t\u0079pe": "content_block\u005fdelta", "delta": {"text": "hear me out"}}"#;
    assert_eq!(event_answer(Format::Anthropic, &[event]), words(&["hear me out"]));
}

#[test]
fn unknown_escapes_in_text_are_malformed() {
    for escape in ["\\x41", "\\u12", "\\uZZZZ", "\\'", "\\ ", "\\u"] {
        let body = chat(&format!("\"a {escape} b\""));
        assert_eq!(decode(CHAT, &body), Err(Unreadable::Malformed), "{escape}");
        let answer = format!(r#"{{"choices": [{{"message": {{"content": "a {escape} b"}}}}]}}"#);
        assert_eq!(json_answer(Format::OpenAiChat, &answer), Answer::Unknown, "{escape}");
    }
}

#[test]
fn lone_surrogates_become_replacement_characters() {
    for (escape, expected) in [
        ("\\ud83d", "\u{fffd}"),
        ("\\ude00", "\u{fffd}"),
        ("\\ud83d\\ud83d", "\u{fffd}\u{fffd}"),
        ("\\ude00\\ud83d", "\u{fffd}\u{fffd}"),
        ("\\ud83dx", "\u{fffd}x"),
        ("\\ud83d\\n", "\u{fffd}\n"),
        ("\\ud83d\\u4e2d", "\u{fffd}中"),
        ("\\ud83d\\ude00", "😀"),
        ("\\uD83D\\uDE00", "😀"),
    ] {
        let text = format!("before {expected} after");
        assert_eq!(input(CHAT, chat(&format!("\"before {escape} after\""))), fingerprint(&[&text]), "{escape}");
    }
}

#[test]
fn invalid_utf8_separates_words_and_is_accepted_in_names() {
    let mut body = chat("\"left right\"").into_bytes();
    let at = body.windows(2).position(|pair| pair == b"t ").unwrap() + 1;
    body[at] = 0xFF;
    assert_eq!(input(CHAT, &body), fingerprint(&["left right"]));
    assert_eq!(decode_any("/", b"left \xC3\x28 \xF0\x9F right").unwrap().input, fingerprint(&["left ( right"]));
    let body = b"{\"\xFF\": 1, \"messages\": [{\"role\": \"\xFF\", \"content\": \"still read\"}]}";
    assert_eq!(input(CHAT, body), fingerprint(&["still read"]));
}

#[test]
fn a_byte_order_mark_is_ignored() {
    assert_eq!(input(CHAT, format!("\u{feff}{}", chat("\"hello there\""))), fingerprint(&["hello there"]));
    assert_eq!(input(CHAT, format!("\u{feff}\r\n {}", chat("\"hello there\""))), fingerprint(&["hello there"]));
    assert_eq!(decode(CHAT, "\u{feff}[1"), Err(Unreadable::Malformed));
    assert_eq!(decode_any("/", "\u{feff}plain words").unwrap().input, fingerprint(&["plain words"]));
    let body = "\u{feff}{\"choices\": [{\"text\": \"hello there\"}]}";
    assert_eq!(json_answer(Format::OpenAiCompletions, body), words(&["hello there"]));
}

#[test]
fn messages_may_be_a_single_message_or_a_string() {
    let body = r#"{"messages": {"role": "user", "content": "just the one"}}"#;
    assert_eq!(input(CHAT, body), fingerprint(&["just the one"]));
    assert_eq!(input(CHAT, r#"{"messages": {}}"#), fingerprint(&[]));
    assert_eq!(input(CHAT, r#"{"messages": "a string"}"#), fingerprint(&["a string"]));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(body in prop::collection::vec(any::<u8>(), 0..400), path in "/?[a-z/:]{0,30}") {
        let _ = decode(&path, &body);
        let _ = decode_as(Literal, &path, &body);
        for api in APIS {
            let _ = decode(api.path, &body);
            let _ = answer(api.format, api.stream.1, &body);
            let _ = answer(api.format, "application/vnd.amazon.eventstream", &body);
        }
    }

    #[test]
    fn no_change_to_a_fixture_causes_a_panic(which in 0usize..9, at in 0usize..4000, byte in any::<u8>(), len in 0usize..9) {
        let api = APIS[which];
        for name in ["request_user.json", "answer_text.json"] {
            let mut body = api.fixture(name);
            let at = at % body.len();
            let end = (at + len).min(body.len());
            body.splice(at..end, [byte]);
            let _ = decode(api.path, &body);
            let _ = decode_as(Literal, api.path, &body);
            let _ = answer(api.format, "application/json", &body);
        }
    }
}
