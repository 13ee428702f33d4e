//! Framings: events, values one after the other, plain text.

use agent_kill_switch::decode::frames::Frames;
use agent_kill_switch::turn::{Answer, Format};
use proptest::prelude::*;

use crate::support::*;

const SSE: &str = "text/event-stream";
const JSON: &str = "application/json";

fn documents(content_type: &str, max_bytes: usize, body: &[u8]) -> (Vec<String>, u32) {
    let mut frames = Frames::new(content_type.as_bytes(), max_bytes);
    let mut found = Vec::new();
    let mut each = |document: agent_kill_switch::decode::json::Json<'_>| {
        found.push(String::from_utf8_lossy(document.text()).into_owned())
    };
    frames.push(body, &mut each);
    frames.finish(&mut each);
    (found, frames.skipped())
}

#[test]
fn lines_may_end_in_any_way() {
    for end in ["\n", "\r\n", "\r"] {
        let body =
            format!("event: x{end}data: {{\"a\":{end}data:1}}{end}{end}: note{end}{end}data:{{}}{end}id: 7{end}{end}");
        let (found, skipped) = documents(SSE, 99, body.as_bytes());
        assert_eq!((found, skipped), (vec!["{\"a\":\n1}".to_owned(), "{}".to_owned()], 0), "{end:?}");
    }
}

#[test]
fn the_last_event_needs_no_blank_line() {
    for body in ["data: {}", "data: {}\n", "data: {}\n\n", "data: {}\n\n\n\n"] {
        assert_eq!(documents(SSE, 99, body.as_bytes()), (vec!["{}".to_owned()], 0), "{body:?}");
    }
}

#[test]
fn a_byte_order_mark_before_events_says_nothing() {
    assert_eq!(documents(SSE, 99, "\u{feff}data: {}\n\n".as_bytes()), (vec!["{}".to_owned()], 0));
}

#[test]
fn other_fields_and_comments_are_no_data() {
    let body = "dat: {}\ndatax: {}\nDATA: {}\n data: {}\n: data: {}\nevent: data\nretry: 10\n\ndata: {\"a\":1}\n\n";
    assert_eq!(documents(SSE, 99, body.as_bytes()), (vec!["{\"a\":1}".to_owned()], 0));
}

#[test]
fn data_that_is_no_json_says_nothing() {
    let body = "data: [DONE]\n\ndata: ping\n\ndata:\n\ndata: \n\n";
    assert_eq!(documents(SSE, 99, body.as_bytes()), (vec!["[DONE]".to_owned()], 0));
}

#[test]
fn data_that_begins_like_json_and_is_not_is_skipped_and_counted() {
    assert_eq!(documents(SSE, 99, b"data: {\"a\": \n\ndata: {}\n\n"), (vec!["{}".to_owned()], 1));
    assert_eq!(documents(JSON, 99, b"{]{}"), (vec!["{}".to_owned()], 1));
}

#[test]
fn values_follow_each_other_with_anything_between() {
    for body in
        ["{\"a\":\"}{\"}{}", "[{\"a\":\"}{\"},\r\n{}]", "\n{\"a\":\"}{\"}\n\n{}\n", "data: {\"a\":\"}{\"}\ndata: {}"]
    {
        assert_eq!(documents(JSON, 99, body.as_bytes()).0, ["{\"a\":\"}{\"}", "{}"], "{body}");
    }
    assert_eq!(documents(JSON, 99, br#"{"a":"\"}\\"}{}"#).0, [r#"{"a":"\"}\\"}"#, "{}"]);
}

#[test]
fn a_document_of_just_the_cap_is_read_and_one_byte_more_is_skipped() {
    let document = "{\"a\":\"0123456789\"}";
    for (content_type, body) in [(SSE, format!("data: {document}\n\n")), (JSON, document.to_owned())] {
        assert_eq!(documents(content_type, document.len(), body.as_bytes()), (vec![document.to_owned()], 0));
        assert_eq!(documents(content_type, document.len() - 1, body.as_bytes()), (vec![], 1));
    }
}

#[test]
fn an_event_longer_than_the_cap_leaves_the_answer_unknown() {
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
fn arguments_in_parts_longer_than_the_cap_leave_the_answer_unknown() {
    let part = |text: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"\",\"arguments\":\"{text}\"}}}}]}}}}]}}\n\n"
        )
    };
    let body = |last: &str| format!("{}{}", part(&"x".repeat(100)).repeat(100), part(last));
    let read = |last: &str, cap| answer_within(cap, Format::OpenAiChat, SSE, [body(last).as_bytes()]);
    assert_eq!(read("y", 5000), Answer::Unknown);
    assert_ne!(read("y", 20_000), read("z", 20_000), "told apart by their end");
}

#[test]
fn calls_without_end_leave_the_answer_unknown() {
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
fn a_body_without_content_type_is_looked_into() {
    let body = r#"{"choices": [{"message": {"content": "found it anyway"}}]}"#;
    assert_eq!(answer(Format::OpenAiChat, "", body), words(&["found it anyway"]));
    assert_eq!(answer(Format::OpenAiChat, "text/plain; charset=utf-8", body), words(&["found it anyway"]));
    assert_eq!(
        answer_in_chunks(Format::OpenAiChat, "text/plain", [b" ", b"\n", body.as_bytes()]),
        words(&["found it anyway"])
    );
}

#[test]
fn plain_text_is_its_own_answer() {
    for format in [Format::Other, Format::OpenAiChat] {
        let chunks = [&b" \n"[..], b"just ", b"wor", b"ds"];
        assert_eq!(answer_in_chunks(format, "Text/Plain", chunks), words(&["just words"]), "{format:?}");
    }
    assert_eq!(answer(Format::Other, "text/plain", "{\"a\": 1}"), words(&["{\"a\": 1}"]));
}

#[test]
fn an_unknown_api_that_answers_in_json_says_all_of_it() {
    assert_eq!(answer(Format::Other, JSON, r#"{"reply": "all of\nit"}"#), words(&["{\"reply\": \"all of\nit\"}"]));
}

#[test]
fn an_answer_without_words_is_unknown() {
    for body in ["", " ", "null", "[]", "{}", r#"{"choices": []}"#, r#"{"choices": [{"message": {"content": null}}]}"#]
    {
        assert_eq!(answer(Format::OpenAiChat, JSON, body), Answer::Unknown, "{body}");
    }
}

proptest! {
    #[test]
    fn any_bytes_give_the_same_documents_in_any_chunking(
        body in prop::collection::vec(prop::sample::select(b"{}[]\"\\:,da ta:\r\n\xEF\xBB\xBF\x00\x10".to_vec()), 0..200),
        size in 1usize..50,
        cap in 1usize..60,
    ) {
        for content_type in [SSE, JSON, "application/vnd.amazon.eventstream"] {
            let whole = documents(content_type, cap, &body);
            let mut frames = Frames::new(content_type.as_bytes(), cap);
            let mut found = Vec::new();
            let mut each = |document: agent_kill_switch::decode::json::Json<'_>| {
                found.push(String::from_utf8_lossy(document.text()).into_owned());
            };
            body.chunks(size).for_each(|chunk| frames.push(chunk, &mut each));
            frames.finish(&mut each);
            prop_assert!(found.iter().all(|document| document.len() <= 3 * cap));
            prop_assert_eq!((found, frames.skipped()), whole);
        }
    }
}
