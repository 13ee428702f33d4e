//! What replies promise, for every format, cause, delivery and style.

use super::event_stream::crc32;
use super::*;
use serde_json::{Value, json};

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

const KILLED: Cause = Cause::Inactive { by: Some(DeactivatedBy::KillSwitch) };
const BLOCKED: Cause = Cause::Blocked { retry_after_seconds: 60 };

const CAUSES: [Cause; 7] = [
    KILLED,
    Cause::Inactive { by: Some(DeactivatedBy::Manual) },
    Cause::Inactive { by: None },
    BLOCKED,
    Cause::NoPolicy,
    Cause::MissingAgent,
    Cause::BadAgentId,
];

const DELIVERIES: [Delivery; 3] = [Delivery::Whole, Delivery::Streamed, Delivery::JsonArray];
const STYLES: [InactiveReply; 2] = [InactiveReply::Error, InactiveReply::Completion];

const KILLED_MESSAGE: &str = "Agent support-bot is inactive: the kill switch deactivated it, because it kept repeating \
    the same calls without getting anywhere. This call was not forwarded, and trying again does not help: every call \
    is refused until a person activates the agent in the kill switch's dashboard (https://ks.example).";

fn refusal(format: Format, cause: Cause) -> Refusal<'static> {
    Refusal {
        format,
        delivery: Delivery::Whole,
        json_rpc_id: Some("7"),
        model: Some("gpt-x"),
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

/// Every combination of format, cause, delivery and style.
fn all() -> Vec<Refusal<'static>> {
    let mut all = Vec::new();
    for format in FORMATS {
        for cause in CAUSES {
            for delivery in DELIVERIES {
                all.extend(STYLES.map(|style| Refusal { delivery, style, ..refusal(format, cause) }));
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

/// The JSON values of a body, whatever its framing.
fn values(reply: &Reply) -> Vec<Value> {
    match header(reply, "content-type").unwrap() {
        "application/json" | "application/problem+json" => vec![parse(text_of(reply))],
        "application/x-ndjson" => text_of(reply).lines().map(parse).collect(),
        "text/event-stream" => events(text_of(reply)),
        "application/vnd.amazon.eventstream" => frames(&reply.body).into_iter().map(|(_, value)| value).collect(),
        other => panic!("content type {other}"),
    }
}

/// The data of each event. Named events carry the name in their data as well.
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

/// Event types and payloads of AWS event-stream frames.
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

/// Every text and number anywhere in a value.
fn leaves(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(members) => members.values().flat_map(leaves).collect(),
        leaf => vec![leaf],
    }
}

/// The value of a member, wherever it stands.
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
fn the_status_follows_the_cause_unless_a_client_is_answered_in_band() {
    for refusal in all() {
        let inactive = matches!(refusal.cause, Cause::Inactive { .. });
        let as_completion = inactive && refusal.style == InactiveReply::Completion && refusal.format != Format::Other;
        let in_band = matches!(refusal.format, Format::Mcp | Format::A2a) || as_completion;
        let expected = match refusal.cause {
            _ if in_band => 200,
            Cause::Inactive { .. } => 403,
            Cause::Blocked { .. } => 429,
            Cause::NoPolicy => 503,
            Cause::MissingAgent | Cause::BadAgentId => 400,
        };
        assert_eq!(refusal.reply().status, expected, "{refusal:?}");
    }
}

#[test]
fn every_error_carries_code_and_agent_id() {
    for refusal in all().iter().filter(|refusal| refusal.style == InactiveReply::Error) {
        let body = values(&refusal.reply()).remove(0);
        let facts = find(&body, "metadata").or_else(|| find(&body, "data")).or_else(|| body.get("error"));
        let facts = facts.filter(|facts| facts.is_object()).unwrap_or(&body);
        assert_eq!(facts["code"], refusal.cause.code(), "{refusal:?}");
        assert_eq!(facts["agent_id"], "support-bot", "{refusal:?}");
    }
}

#[test]
fn an_inactive_agents_error_names_who_deactivated_it() {
    let cases = [
        (Some(DeactivatedBy::KillSwitch), json!("kill_switch"), "the kill switch deactivated it"),
        (Some(DeactivatedBy::Manual), json!("manual"), "a person deactivated it"),
        (None, Value::Null, "Agent support-bot is inactive. This call"),
    ];
    for (by, expected, words) in cases {
        for format in FORMATS.into_iter().filter(|format| *format != Format::Gemini) {
            let body = values(&refusal(format, Cause::Inactive { by }).reply()).remove(0);
            assert_eq!(find(&body, "deactivated_by"), Some(&expected), "{format:?}");
            assert!(body.to_string().contains(words), "{format:?}: {body}");
        }
    }
}

#[test]
fn a_blocked_agent_learns_block_reason_and_when_to_come_back() {
    for format in FORMATS {
        let reply = refusal(format, BLOCKED).reply();
        let body = values(&reply).remove(0);
        let as_text = format == Format::Gemini;
        assert_eq!(find(&body, "block_reason"), Some(&json!("loop_detected")), "{format:?}");
        let blocked = if as_text { json!("true") } else { json!(true) };
        assert_eq!(find(&body, "blocked"), Some(&blocked), "{format:?}");
        let seconds = if as_text { json!("60") } else { json!(60) };
        assert_eq!(find(&body, "retry_after_seconds"), Some(&seconds), "{format:?}");
        assert_eq!(header(&reply, "retry-after"), Some("60"), "{format:?}");
    }
    let over = refusal(Format::OpenAiChat, Cause::Blocked { retry_after_seconds: 0 }).reply();
    assert_eq!(header(&over, "retry-after"), Some("1"), "a time that is just up is not 0");
}

#[test]
fn only_a_missing_policy_may_be_retried_by_itself() {
    for format in FORMATS {
        for cause in CAUSES {
            let expected = if cause == Cause::NoPolicy { None } else { Some("false") };
            let reply = refusal(format, cause).reply();
            assert_eq!(header(&reply, "x-should-retry"), expected, "{format:?} {cause:?}");
        }
    }
}

#[test]
fn errors_have_the_shape_of_each_api() {
    let m = KILLED_MESSAGE;
    let facts = json!({"code": "agent_inactive", "agent_id": "support-bot", "deactivated_by": "kill_switch"});
    let with = |mut value: Value, extra: &Value| {
        let members = extra.as_object().unwrap().clone();
        value.as_object_mut().unwrap().extend(members);
        value
    };
    let openai = json!({"error": with(json!({"message": m, "type": "permission_error", "param": null}), &facts)});
    let cases = [
        (Format::OpenAiChat, openai.clone()),
        (Format::OpenAiCompletions, openai.clone()),
        (Format::OpenAiResponses, openai),
        (
            Format::Anthropic,
            json!({"type": "error", "error": with(json!({"type": "permission_error", "message": m}), &facts)}),
        ),
        (
            Format::Gemini,
            json!({"error": {"code": 403, "message": m, "status": "PERMISSION_DENIED", "details": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "AGENT_INACTIVE",
                "domain": "agent-kill-switch", "metadata": facts}]}}),
        ),
        (Format::Bedrock, with(json!({"message": m}), &facts)),
        (Format::OllamaChat, with(json!({"error": m}), &facts)),
        (Format::OllamaGenerate, with(json!({"error": m}), &facts)),
        (Format::Cohere, with(json!({"message": m}), &facts)),
        (Format::Mcp, json!({"jsonrpc": "2.0", "id": 7, "error": {"code": 403, "message": m, "data": facts}})),
        (Format::A2a, json!({"jsonrpc": "2.0", "id": 7, "error": {"code": 403, "message": m, "data": facts}})),
        (Format::Other, with(json!({"title": "Forbidden", "status": 403, "detail": m}), &facts)),
    ];
    for (format, expected) in cases {
        assert_eq!(values(&refusal(format, KILLED).reply()), [expected], "{format:?}");
    }
}

#[test]
fn the_whole_reply_to_an_inactive_openai_client_is_this() {
    let expected = Reply {
        status: 403,
        headers: vec![
            ("content-type", "application/json".into()),
            ("x-kill-switch-reason", "agent_inactive".into()),
            ("x-should-retry", "false".into()),
        ],
        body: format!(
            r#"{{"error": {{"message": "{KILLED_MESSAGE}", "type": "permission_error", "param": null, "code": "agent_inactive", "agent_id": "support-bot", "deactivated_by": "kill_switch"}}}}"#
        )
        .into_bytes(),
        details: "agent_inactive",
    };
    assert_eq!(refusal(Format::OpenAiChat, KILLED).reply(), expected);
}

#[test]
fn bedrock_names_the_exception_in_a_header() {
    let cases = [
        (KILLED, "AccessDeniedException"),
        (BLOCKED, "ThrottlingException"),
        (Cause::NoPolicy, "ServiceUnavailableException"),
        (Cause::MissingAgent, "ValidationException"),
    ];
    for (cause, exception) in cases {
        let reply = refusal(Format::Bedrock, cause).reply();
        assert_eq!(header(&reply, "x-amzn-errortype"), Some(exception), "{cause:?}");
    }
    assert_eq!(header(&refusal(Format::Anthropic, KILLED).reply(), "x-amzn-errortype"), None);
}

#[test]
fn a_json_rpc_id_comes_back_as_it_was_given() {
    let cases = ["7", "-1", "0.5", "\"a\"", r#""quote \" and \u00e9""#, "123456789012345678901234567890", " 7 "];
    for format in [Format::Mcp, Format::A2a] {
        for (id, style) in cases.iter().flat_map(|id| STYLES.map(|style| (id, style))) {
            let reply = Refusal { json_rpc_id: Some(id), style, ..refusal(format, KILLED) }.reply();
            let body = text_of(&reply);
            assert_eq!(reply.status, 200, "{id}");
            assert!(body.starts_with(&format!(r#"{{"jsonrpc": "2.0", "id": {}, "#, id.trim())), "{body}");
            parse(body);
        }
    }
}

#[test]
fn without_an_id_to_match_json_rpc_gets_the_http_status() {
    let cases = [None, Some(""), Some("null"), Some("{}"), Some("[1]"), Some("true"), Some("7, \"x\": 1"), Some("\"a")];
    for format in [Format::Mcp, Format::A2a] {
        for (json_rpc_id, style) in cases.iter().flat_map(|id| STYLES.map(|style| (*id, style))) {
            let reply = Refusal { json_rpc_id, style, ..refusal(format, KILLED) }.reply();
            assert_eq!(reply.status, 403, "{json_rpc_id:?}");
            assert_eq!(values(&reply)[0]["id"], Value::Null, "{json_rpc_id:?}");
            assert_eq!(values(&reply)[0]["error"]["code"], 403, "{json_rpc_id:?}");
        }
    }
}

#[test]
fn completions_have_the_shape_of_each_api() {
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
fn a_completion_claims_no_usage() {
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
fn the_final_response_object_of_a_stream_is_the_whole_one() {
    let streamed = values(&completion(Format::OpenAiResponses, Delivery::Streamed).reply());
    let whole = values(&completion(Format::OpenAiResponses, Delivery::Whole).reply());
    assert_eq!(streamed.last().unwrap()["response"], whole[0]);
}

#[test]
fn gemini_streams_an_array_unless_asked_for_events() {
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
fn an_error_to_a_client_that_streams_is_plain_json_except_for_a2a() {
    for format in FORMATS {
        let reply = Refusal { delivery: Delivery::Streamed, ..refusal(format, KILLED) }.reply();
        let expected = match format {
            Format::A2a => "text/event-stream",
            Format::Other => "application/problem+json",
            _ => "application/json",
        };
        assert_eq!(header(&reply, "content-type"), Some(expected), "{format:?}");
    }
}

#[test]
fn completion_changes_nothing_but_the_inactive_reply() {
    for refusal in all().into_iter().filter(|refusal| refusal.style == InactiveReply::Completion) {
        let inactive = matches!(refusal.cause, Cause::Inactive { .. });
        if inactive && refusal.format != Format::Other {
            continue;
        }
        let as_error = Refusal { style: InactiveReply::Error, ..refusal.clone() };
        assert_eq!(refusal.reply(), as_error.reply(), "{refusal:?}");
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
fn a_very_long_id_or_model_is_not_repeated_whole() {
    let long = "é".repeat(100_000);
    for refusal in all() {
        let reply = Refusal { agent_id: Some(&long), model: Some(&long), ..refusal }.reply();
        assert!(reply.body.len() < 16_384, "{}", reply.body.len());
    }
}

#[test]
fn what_is_not_known_is_left_out_or_null() {
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
