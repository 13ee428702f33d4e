//! Tests that hold for every format, cause, delivery and style, and the functions that read a reply.

mod completions;
mod errors;

use super::event_stream::crc32;
use super::*;
use serde::de::IgnoredAny;
use serde_json::Value;

const FORMATS: [Format; 12] = [
    Format::OpenAiChat,
    Format::OpenAiCompletions,
    Format::OpenAiResponses,
    Format::Anthropic,
    Format::Gemini,
    Format::Bedrock,
    Format::OllamaChat,
    Format::OllamaGenerate,
    Format::Cohere,
    Format::Mcp,
    Format::A2a,
    Format::Other,
];

const KILLED: Cause = Cause::Inactive { by: Some(DeactivatedBy::KillSwitch), reason: String::new() };
const BLOCKED: Cause = Cause::Blocked { retry_after_seconds: 60, reason: String::new() };
const STOPPED: Cause = Cause::SessionStopped {
    session: String::new(),
    reason: String::new(),
    retry_after_seconds: 3600,
    action: Action::Deactivate,
};

const CAUSES: [Cause; 9] = [
    KILLED,
    Cause::Inactive { by: Some(DeactivatedBy::Manual), reason: String::new() },
    Cause::Inactive { by: None, reason: String::new() },
    BLOCKED,
    STOPPED,
    Cause::NoPolicy,
    Cause::Unjudged { because: "its body is not valid JSON" },
    Cause::MissingAgent,
    Cause::BadAgentId,
];

const DELIVERIES: [Delivery; 3] = [Delivery::Whole, Delivery::Streamed, Delivery::JsonArray];
const STYLES: [InactiveReply; 2] = [InactiveReply::Error, InactiveReply::Completion];

const KILLED_MESSAGE: &str = "Agent support-bot is inactive: the kill switch deactivated it, because it was in a \
    loop. This call was not forwarded, and trying again does not help: every call is refused until a person \
    activates the agent in the kill switch's dashboard (https://ks.example).";

fn refusal(format: Format, cause: Cause) -> Refusal<'static> {
    Refusal {
        format,
        delivery: Delivery::Whole,
        json_rpc_id: Some("7"),
        model: Some("gpt-x"),
        is_call: true,
        agent_id: Some("support-bot"),
        cause,
        style: InactiveReply::Error,
        dashboard_url: Some("https://ks.example"),
        at_ms: 1_705_314_600_000,
    }
}

fn completion(format: Format, delivery: Delivery) -> Refusal<'static> {
    Refusal { delivery, style: InactiveReply::Completion, ..refusal(format, KILLED) }
}

/// Returns every combination of format, cause, delivery and style.
fn all() -> Vec<Refusal<'static>> {
    let mut all = Vec::new();
    for format in FORMATS {
        for cause in CAUSES {
            for delivery in DELIVERIES {
                all.extend(STYLES.map(|style| Refusal { delivery, style, ..refusal(format, cause.clone()) }));
            }
        }
    }
    all
}

fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    reply.headers.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
}

fn text_of(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).unwrap()
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

/// Returns the JSON values in a body, however they are framed.
fn values(reply: &Reply) -> Vec<Value> {
    match header(reply, "content-type").unwrap() {
        "application/json" | "application/problem+json" => vec![parse(text_of(reply))],
        "application/x-ndjson" => text_of(reply).lines().map(parse).collect(),
        "text/event-stream" => events(text_of(reply)),
        "application/vnd.amazon.eventstream" => frames(&reply.body).into_iter().map(|(_, value)| value).collect(),
        other => panic!("content type {other}"),
    }
}

/// Returns the data of each event, and checks that the name of a named event is also the type in its data.
fn events(body: &str) -> Vec<Value> {
    let frames = body.strip_suffix("\n\n").expect("the last event ends with an empty line");
    let mut values = Vec::new();
    for frame in frames.split("\n\n") {
        let (name, data) = match frame.strip_prefix("event: ") {
            Some(rest) => rest.split_once('\n').map(|(name, data)| (Some(name), data)).unwrap(),
            None => (None, frame),
        };
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data in {frame}"));
        if data == "[DONE]" {
            continue;
        }
        let value = parse(data);
        if let Some(name) = name {
            assert_eq!(value["type"], name);
        }
        values.push(value);
    }
    values
}

/// Returns event types and payloads of AWS event-stream frames.
fn frames(mut body: &[u8]) -> Vec<(String, Value)> {
    let mut frames = Vec::new();
    while !body.is_empty() {
        let number = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        let (total, headers) = (number(0) as usize, number(4) as usize);
        assert_eq!(number(total - 4), crc32(&body[..total - 4]));
        let name_at = 12 + 1 + ":event-type".len() + 3;
        let name_length = usize::from(body[name_at - 1]);
        let name = String::from_utf8(body[name_at..name_at + name_length].to_vec()).unwrap();
        frames.push((name, parse(std::str::from_utf8(&body[12 + headers..total - 4]).unwrap())));
        body = &body[total..];
    }
    frames
}

/// Returns every value in `value` that is neither a list nor an object.
fn leaves(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(members) => members.values().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}

/// Returns the first member with this name at any depth.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| find(item, name)),
        Value::Object(members) => members.get(name).or_else(|| members.values().find_map(|member| find(member, name))),
        _ => None,
    }
}

#[test]
fn every_reply_is_well_formed_and_says_what_happened() {
    for refusal in all() {
        let reply = refusal.reply();
        let message = refusal.message();
        let said = values(&reply).iter().any(|value| leaves(value).iter().any(|leaf| **leaf == *message));
        assert!(said, "{refusal:?} says {}", String::from_utf8_lossy(&reply.body));
        assert_eq!(reply.details, refusal.cause.code(), "{refusal:?}");
        assert_eq!(header(&reply, "x-kill-switch-reason"), Some(reply.details), "{refusal:?}");
        assert!(!reply.body.windows(2).any(|pair| pair == b"\"$"), "{refusal:?} leaves a placeholder");
    }
}

#[test]
fn the_status_follows_the_cause_except_for_json_rpc_and_completions() {
    for refusal in all() {
        let inactive = matches!(refusal.cause, Cause::Inactive { .. } | Cause::SessionStopped { .. });
        let as_completion = inactive && refusal.style == InactiveReply::Completion && refusal.format != Format::Other;
        let always_ok = matches!(refusal.format, Format::Mcp | Format::A2a) || as_completion;
        let expected = match refusal.cause {
            _ if always_ok => 200,
            Cause::Inactive { .. } | Cause::SessionStopped { .. } | Cause::Unjudged { .. } => 403,
            Cause::Blocked { .. } => 429,
            Cause::NoPolicy => 503,
            Cause::MissingAgent | Cause::BadAgentId => 400,
        };
        assert_eq!(refusal.reply().status, expected, "{refusal:?}");
    }
}

#[test]
fn a_json_rpc_id_is_returned_exactly_as_it_was_sent() {
    let cases =
        ["7", "-1", "0.5", "\"a\"", r#""quote \" and \u00e9""#, r#""\ud800""#, "123456789012345678901234567890", " 7 "];
    for format in [Format::Mcp, Format::A2a] {
        for (id, style) in cases.iter().flat_map(|id| STYLES.map(|style| (id, style))) {
            let reply = Refusal { json_rpc_id: Some(id), style, ..refusal(format, KILLED) }.reply();
            let body = text_of(&reply);
            assert_eq!(reply.status, 200, "{id}");
            assert!(body.starts_with(&format!(r#"{{"jsonrpc": "2.0", "id": {}, "#, id.trim())), "{body}");
            assert!(serde_json::from_str::<IgnoredAny>(body).is_ok(), "{body}");
        }
    }
}

#[test]
fn hostile_text_breaks_neither_json_nor_headers_nor_frames() {
    let hostile = [
        r#"","code":"x"#,
        "\\",
        "\"$facts\": \"...\"",
        "$message",
        "a\r\n\r\ndata: [DONE]\n\nevent: x",
        "\u{0}\u{1}\u{7f}\u{2028}\u{feff}",
        "</script>{}{0}%s",
        "🦀日本語",
    ];
    for text in hostile {
        for refusal in all() {
            let refusal = Refusal { agent_id: Some(text), model: Some(text), ..refusal };
            let reply = refusal.reply();
            let values = values(&reply);
            let message = refusal.message();
            let said = values.iter().any(|value| leaves(value).iter().any(|leaf| **leaf == *message));
            assert!(said, "{refusal:?}");
            let honest = Refusal { agent_id: Some("a"), model: Some("m"), ..refusal.clone() }.reply();
            assert_eq!(reply.headers, honest.headers, "{refusal:?}");
        }
    }
}

#[test]
fn a_very_long_id_or_model_is_shortened() {
    let long = "é".repeat(100_000);
    for refusal in all() {
        let reply = Refusal { agent_id: Some(&long), model: Some(&long), ..refusal }.reply();
        assert!(reply.body.len() < 16_384, "{}", reply.body.len());
    }
}

#[test]
fn unknown_values_are_left_out_or_null() {
    for refusal in all() {
        let bare = Refusal { agent_id: None, model: None, dashboard_url: None, ..refusal };
        let reply = bare.reply();
        values(&reply);
        assert!(!bare.message().contains("()"), "{}", bare.message());
    }
    let body =
        values(&Refusal { agent_id: None, ..refusal(Format::OpenAiChat, Cause::MissingAgent) }.reply()).remove(0);
    assert_eq!(body["error"]["agent_id"], Value::Null);
}
