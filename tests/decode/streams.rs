//! Framings: server-sent events, JSON values one after the other, text.

use agent_kill_switch::decode::frames::Frames;
use agent_kill_switch::decode::json::Json;
use agent_kill_switch::turn::{Answer, Format};
use proptest::prelude::*;

use crate::support::*;

const SSE: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Returns the documents of a body that comes in chunks, and how many documents were skipped.
fn documents<'a>(
    content_type: &str,
    max_bytes: usize,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, u32) {
    let mut frames = Frames::new(content_type.as_bytes(), max_bytes);
    let mut found = Vec::new();
    let mut each = |document: Json<'_>| found.push(String::from_utf8_lossy(document.text()).into_owned());
    chunks.into_iter().for_each(|chunk| frames.push(chunk, &mut each));
    frames.finish(&mut each);
    (found, frames.skipped())
}

#[test]
fn bodies_are_cut_into_documents() {
    let two = r#"{"a":"}{"}"#;
    let cases: [(&str, &str, &[&str], u32); 17] = [
        (SSE, "event: x\ndata: {\"a\":\ndata:1}\n\n: note\n\ndata:{}\nid: 7\n\n", &["{\"a\":\n1}", "{}"], 0),
        // The last event needs no blank line.
        (SSE, "data: {}", &["{}"], 0),
        (SSE, "data: {}\n", &["{}"], 0),
        (SSE, "data: {}\n\n", &["{}"], 0),
        (SSE, "data: {}\n\n\n\n", &["{}"], 0),
        (SSE, "\u{feff}data: {}\n\n", &["{}"], 0),
        // Other fields and comments are ignored.
        (SSE, "dat: {}\ndatax: {}\nDATA: {}\n data: {}\n\ndata: {\"a\":1}\n\n", &["{\"a\":1}"], 0),
        (SSE, ": data: {}\nevent: data\nretry: 10\n\ndata: {\"a\":1}\n\n", &["{\"a\":1}"], 0),
        // So is data that does not begin like JSON. Data that does, but is invalid, is counted.
        (SSE, "data: [DONE]\n\ndata: ping\n\ndata:\n\ndata: \n\n", &["[DONE]"], 0),
        (SSE, "data: {\"a\": \n\ndata: {}\n\n", &["{}"], 1),
        (JSON, "{]{}", &["{}"], 1),
        // Anything may be between JSON values.
        (JSON, "{\"a\":\"}{\"}{}", &[two, "{}"], 0),
        (JSON, "[{\"a\":\"}{\"},\r\n{}]", &[two, "{}"], 0),
        (JSON, "\n{\"a\":\"}{\"}\n\n{}\n", &[two, "{}"], 0),
        (JSON, "data: {\"a\":\"}{\"}\ndata: {}", &[two, "{}"], 0),
        (JSON, r#"{"a":"\"}\\"}{}"#, &[r#"{"a":"\"}\\"}"#, "{}"], 0),
        (JSON, "", &[], 0),
    ];
    for (content_type, body, expected, skipped) in cases {
        let ends: &[&str] = if content_type == SSE { &["\n", "\r\n", "\r"] } else { &["\n"] };
        for end in ends {
            let body = body.replace('\n', end);
            let (found, skips) = documents(content_type, 99, [body.as_bytes()]);
            assert!(found.iter().eq(expected) && skips == skipped, "{body:?}: {found:?}, {skips} skipped");
        }
    }
}

#[test]
fn a_document_that_exceeds_the_limit_by_one_byte_is_skipped() {
    let document = "{\"a\":\"0123456789\"}";
    for (content_type, body) in [(SSE, format!("data: {document}\n\n")), (JSON, document.to_owned())] {
        assert_eq!(documents(content_type, document.len(), [body.as_bytes()]), (vec![document.to_owned()], 0));
        assert_eq!(documents(content_type, document.len() - 1, [body.as_bytes()]), (vec![], 1));
    }
}

#[test]
fn an_event_that_exceeds_the_limit_makes_the_answer_unknown() {
    let event =
        |text: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let long = event(&"long ".repeat(1000));
    let body = format!("{}{long}{}", event("before"), event(" after"));
    for size in [1, 7, 100_000] {
        let cut = answer_within(2000, Format::OpenAiChat, SSE, body.as_bytes().chunks(size));
        assert_eq!(cut, Answer::Unknown, "{size}");
        let whole = answer_within(long.len(), Format::OpenAiChat, SSE, body.as_bytes().chunks(size));
        assert!(matches!(whole, Answer::Text(_)), "{size}");
    }
}

#[test]
fn arguments_that_exceed_the_limit_make_the_answer_unknown() {
    let part = |text: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"\",\"arguments\":\"{text}\"}}}}]}}}}]}}\n\n"
        )
    };
    let body = |last: &str| format!("{}{}", part(&"x".repeat(100)).repeat(100), part(last));
    let read = |last: &str, cap| answer_within(cap, Format::OpenAiChat, SSE, [body(last).as_bytes()]);
    assert_eq!(read("y", 5000), Answer::Unknown);
    assert_ne!(read("y", 20_000), read("z", 20_000), "arguments are compared up to their end");
}

#[test]
fn too_many_calls_make_the_answer_unknown() {
    let events: Vec<_> = (0..1000)
        .map(|index| {
            format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"function":{{"name":"f"}}}}]}}}}]}}"#)
        })
        .collect();
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    assert_eq!(event_answer(Format::OpenAiChat, &events), Answer::Unknown);
    assert_eq!(event_answer(Format::OpenAiChat, &events[..50]), calls(&[("f", "{}")]));
}

#[test]
fn json_is_recognised_without_its_content_type() {
    let body = r#"{"choices": [{"message": {"content": "found it anyway"}}]}"#;
    assert_eq!(answer(Format::OpenAiChat, "", body), words(&["found it anyway"]));
    assert_eq!(answer(Format::OpenAiChat, "text/plain; charset=utf-8", body), words(&["found it anyway"]));
    assert_eq!(
        answer_in_chunks(Format::OpenAiChat, "text/plain", [b" ", b"\n", body.as_bytes()]),
        words(&["found it anyway"])
    );
}

#[test]
fn a_text_body_is_the_answer() {
    for format in [Format::Other, Format::OpenAiChat] {
        let chunks = [&b" \n"[..], b"just ", b"wor", b"ds"];
        assert_eq!(answer_in_chunks(format, "Text/Plain", chunks), words(&["just words"]), "{format:?}");
    }
    assert_eq!(answer(Format::Other, "text/plain", "{\"a\": 1}"), words(&["{\"a\": 1}"]));
}

#[test]
fn events_are_recognised_without_their_content_type_in_chunks_of_any_size() {
    let body = "event: chunk\r\ndata: {\"choices\": [{\"delta\": {\"content\": \"found it anyway\"}}]}\r\n\r\n";
    for size in 1..9 {
        let chunks = body.as_bytes().chunks(size);
        assert_eq!(answer_in_chunks(Format::OpenAiChat, "text/html", chunks), words(&["found it anyway"]), "{size}");
        let text = b"evening is the time of events".chunks(size);
        let expected = words(&["evening is the time of events"]);
        assert_eq!(answer_in_chunks(Format::OpenAiChat, "text/plain", text), expected, "{size}");
    }
    assert_eq!(answer(Format::OpenAiChat, "text/plain", "data"), words(&["data"]), "nothing more comes");
}

#[test]
fn an_event_with_the_name_of_an_error_is_a_failure_of_a_model() {
    let content = r#"data: {"choices": [{"delta": {"content": "hello there"}}]}"#;
    let error = r#"data: {"message": "upstream overloaded", "code": 503}"#;
    for (name, failed) in [
        ("event: error", true),
        ("event:error", true),
        ("event: error ", false),
        ("event: errors", false),
        ("event: errand", false),
        ("event:message", false),
        ("Event: error", false),
        ("e", false),
    ] {
        for end in ["\n", "\r\n", "\r"] {
            let body = format!("{content}\n\n{name}\n{error}\n\n").replace('\n', end);
            for size in [1, 7, 8, 1000] {
                let read = |format| answer_in_chunks(format, SSE, body.as_bytes().chunks(size));
                let expected = if failed { Answer::Failed } else { words(&["hello there"]) };
                assert_eq!(read(Format::OpenAiChat), expected, "{name} in chunks of {size}");
                assert_ne!(
                    read(Format::Mcp),
                    Answer::Failed,
                    "{name}: tools and agents report errors in their results"
                );
            }
        }
    }
}

#[test]
fn the_whole_json_of_an_unknown_api_is_the_answer() {
    assert_eq!(answer(Format::Other, JSON, r#"{"reply": "all of\nit"}"#), words(&["{\"reply\": \"all of\nit\"}"]));
}

#[test]
fn an_answer_without_text_is_unknown() {
    for body in ["", " ", "null", "[]", "{}", r#"{"choices": []}"#, r#"{"choices": [{"message": {"content": null}}]}"#]
    {
        assert_eq!(answer(Format::OpenAiChat, JSON, body), Answer::Unknown, "{body}");
    }
}

proptest! {
    #[test]
    fn chunking_does_not_change_the_documents_of_any_bytes(
        body in prop::collection::vec(prop::sample::select(b"{}[]\"\\:,da ta:\r\n\xEF\xBB\xBF\x00\x10".to_vec()), 0..200),
        size in 1usize..50,
        cap in 1usize..60,
    ) {
        for content_type in [SSE, JSON, "application/vnd.amazon.eventstream"] {
            let whole = documents(content_type, cap, [&body[..]]);
            prop_assert!(whole.0.iter().all(|document| document.len() <= 3 * cap));
            prop_assert_eq!(documents(content_type, cap, body.chunks(size)), whole);
        }
    }
}
