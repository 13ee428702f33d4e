//! Refusals as completions: the format of each API, whole and streamed.

use super::*;
use serde_json::json;

#[test]
fn completions_have_the_format_of_each_api() {
    let cases = [
        (Format::OpenAiChat, "/choices/0/message/content", "/choices/0/finish_reason", "stop"),
        (Format::OpenAiCompletions, "/choices/0/text", "/choices/0/finish_reason", "stop"),
        (Format::OpenAiResponses, "/output/0/content/0/text", "/status", "completed"),
        (Format::Anthropic, "/content/0/text", "/stop_reason", "end_turn"),
        (Format::Gemini, "/candidates/0/content/parts/0/text", "/candidates/0/finishReason", "STOP"),
        (Format::Bedrock, "/output/message/content/0/text", "/stopReason", "end_turn"),
        (Format::OllamaChat, "/message/content", "/done_reason", "stop"),
        (Format::OllamaGenerate, "/response", "/done_reason", "stop"),
        (Format::Cohere, "/message/content/0/text", "/finish_reason", "COMPLETE"),
        (Format::Mcp, "/result/content/0/text", "/result/content/0/type", "text"),
        (Format::A2a, "/result/parts/0/text", "/result/kind", "message"),
    ];
    for (format, text, reason, expected) in cases {
        let body = values(&completion(format, Delivery::Whole).reply()).remove(0);
        assert_eq!(body.pointer(text), Some(&json!(KILLED_MESSAGE)), "{format:?}");
        assert_eq!(body.pointer(reason), Some(&json!(expected)), "{format:?}");
    }
}

#[test]
fn a_completion_reports_no_usage() {
    for format in FORMATS {
        for delivery in DELIVERIES {
            for value in values(&completion(format, delivery).reply()) {
                let usage = ["usage", "usageMetadata"].iter().find_map(|name| find(&value, name));
                let numbers = usage.map(leaves).unwrap_or_default();
                assert!(numbers.iter().all(|number| number.is_null() || **number == 0), "{format:?}: {numbers:?}");
            }
        }
    }
}

#[test]
fn a_streamed_completion_adds_up_to_the_message() {
    let cases = [
        (Format::OpenAiChat, "text/event-stream", "/choices/0/delta/content"),
        (Format::OpenAiCompletions, "text/event-stream", "/choices/0/text"),
        (Format::OpenAiResponses, "text/event-stream", "/delta"),
        (Format::Anthropic, "text/event-stream", "/delta/text"),
        (Format::Gemini, "text/event-stream", "/candidates/0/content/parts/0/text"),
        (Format::Bedrock, "application/vnd.amazon.eventstream", "/delta/text"),
        (Format::OllamaChat, "application/x-ndjson", "/message/content"),
        (Format::OllamaGenerate, "application/x-ndjson", "/response"),
        (Format::Cohere, "text/event-stream", "/delta/message/content/text"),
        (Format::Mcp, "application/json", "/result/content/0/text"),
        (Format::A2a, "text/event-stream", "/result/parts/0/text"),
    ];
    for (format, content_type, piece) in cases {
        let reply = completion(format, Delivery::Streamed).reply();
        assert_eq!(header(&reply, "content-type"), Some(content_type), "{format:?}");
        let values = values(&reply);
        let text: String = values.iter().filter_map(|value| value.pointer(piece)?.as_str()).collect();
        assert_eq!(text, KILLED_MESSAGE, "{format:?}");
    }
}

#[test]
fn streams_begin_and_end_as_their_clients_expect() {
    let types = |format| -> Vec<String> {
        let values = values(&completion(format, Delivery::Streamed).reply());
        values.iter().map(|value| value["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let anthropic = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(types(Format::Anthropic), anthropic);
    let cohere = ["message-start", "content-start", "content-delta", "content-end", "message-end"];
    assert_eq!(types(Format::Cohere), cohere);

    let responses = values(&completion(Format::OpenAiResponses, Delivery::Streamed).reply());
    assert_eq!(responses[0]["type"], "response.created");
    assert_eq!(responses.last().unwrap()["type"], "response.completed");
    for (number, event) in responses.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }

    let bedrock: Vec<String> = frames(&completion(Format::Bedrock, Delivery::Streamed).reply().body)
        .into_iter()
        .map(|(event_type, _)| event_type)
        .collect();
    assert_eq!(bedrock, ["messageStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]);

    for format in [Format::OpenAiChat, Format::OpenAiCompletions, Format::Cohere] {
        let reply = completion(format, Delivery::Streamed).reply();
        assert!(text_of(&reply).ends_with("\n\ndata: [DONE]\n\n"), "{format:?}");
    }
}

#[test]
fn the_last_event_of_a_responses_stream_contains_the_whole_response() {
    let streamed = values(&completion(Format::OpenAiResponses, Delivery::Streamed).reply());
    let whole = values(&completion(Format::OpenAiResponses, Delivery::Whole).reply());
    assert_eq!(streamed.last().unwrap()["response"], whole[0]);
}

#[test]
fn gemini_streams_an_array_unless_the_client_asks_for_events() {
    let base = "/v1beta/models/gemini-x:streamGenerateContent";
    let cases = [
        (Format::Gemini, base.to_owned(), Delivery::JsonArray),
        (Format::Gemini, format!("{base}?alt=sse"), Delivery::Streamed),
        (Format::Gemini, format!("{base}?key=k&alt=sse"), Delivery::Streamed),
        (Format::Gemini, format!("{base}?alt=json"), Delivery::JsonArray),
        (Format::OpenAiChat, "/v1/chat/completions".to_owned(), Delivery::Streamed),
    ];
    for (format, path, expected) in cases {
        assert_eq!(Delivery::streamed(format, &path), expected, "{path}");
    }
    for style in STYLES {
        let reply = Refusal { style, ..completion(Format::Gemini, Delivery::JsonArray) }.reply();
        assert!(values(&reply)[0].is_array(), "{style:?}");
    }
}

#[test]
fn the_completion_style_changes_only_the_inactive_reply_to_calls() {
    let not_a_call = Refusal { is_call: false, ..completion(Format::OpenAiChat, Delivery::Whole) };
    let all = all().into_iter().filter(|refusal| refusal.style == InactiveReply::Completion);
    for refusal in all.chain([not_a_call]) {
        let inactive = matches!(refusal.cause, Cause::Inactive { .. } | Cause::SessionStopped { .. });
        if inactive && refusal.is_call && refusal.format != Format::Other {
            continue;
        }
        let as_error = Refusal { style: InactiveReply::Error, ..refusal.clone() };
        assert_eq!(refusal.reply(), as_error.reply(), "{refusal:?}");
    }
}
