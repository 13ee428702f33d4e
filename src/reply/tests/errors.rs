//! Refusals as errors: the format, facts and headers of each API.

use super::*;
use serde_json::json;

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
            let body = values(&refusal(format, Cause::Inactive { by, reason: String::new() }).reply()).remove(0);
            assert_eq!(find(&body, "deactivated_by"), Some(&expected), "{format:?}");
            assert!(body.to_string().contains(words), "{format:?}: {body}");
        }
    }
}

#[test]
fn a_blocked_agent_is_told_the_reason_and_when_to_retry() {
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
    let over = refusal(Format::OpenAiChat, Cause::Blocked { retry_after_seconds: 0, reason: String::new() }).reply();
    assert_eq!(header(&over, "retry-after"), Some("1"), "never 0, even if the time is just over");
}

#[test]
fn clients_may_retry_by_themselves_only_if_the_policy_is_missing() {
    for format in FORMATS {
        for cause in CAUSES {
            let expected = if cause == Cause::NoPolicy { None } else { Some("false") };
            let reply = refusal(format, cause.clone()).reply();
            assert_eq!(header(&reply, "x-should-retry"), expected, "{format:?} {cause:?}");
        }
    }
}

#[test]
fn errors_have_the_format_of_each_api() {
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
        (
            Format::Other,
            with(
                json!({"title": "Forbidden", "status": 403, "detail": m, "message": m,
                    "error": with(json!({"message": m, "type": "Forbidden"}), &facts)}),
                &facts,
            ),
        ),
    ];
    for (format, expected) in cases {
        assert_eq!(values(&refusal(format, KILLED).reply()), [expected], "{format:?}");
    }
}

#[test]
fn the_whole_reply_to_an_inactive_openai_client_is_exact() {
    let expected = Reply {
        status: 403,
        headers: vec![
            ("content-type", "application/json".into()),
            ("x-kill-switch-reason", "agent_inactive".into()),
            ("x-should-retry", "false".into()),
        ],
        body: format!(
            concat!(
                r#"{{"error": {{"message": "{}", "type": "permission_error", "param": null, "#,
                r#""code": "agent_inactive", "agent_id": "support-bot", "deactivated_by": "kill_switch"}}}}"#
            ),
            KILLED_MESSAGE
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
        let reply = refusal(Format::Bedrock, cause.clone()).reply();
        assert_eq!(header(&reply, "x-amzn-errortype"), Some(exception), "{cause:?}");
    }
    assert_eq!(header(&refusal(Format::Anthropic, KILLED).reply(), "x-amzn-errortype"), None);
}

#[test]
fn json_rpc_without_a_string_or_number_as_id_gets_the_http_status() {
    let ids = ["", "null", "{}", "[1]", "true", "7, \"x\": 1", "\"a", "\"a\nb\"", "\"\\x\"", "01", "-", "1.", "1e"];
    for format in [Format::Mcp, Format::A2a] {
        let ids = ids.into_iter().map(Some).chain([None]);
        for (json_rpc_id, style) in ids.flat_map(|id| STYLES.map(|style| (id, style))) {
            let reply = Refusal { json_rpc_id, style, ..refusal(format, KILLED) }.reply();
            assert_eq!(reply.status, 403, "{json_rpc_id:?}");
            assert_eq!(values(&reply)[0]["id"], Value::Null, "{json_rpc_id:?}");
            assert_eq!(values(&reply)[0]["error"]["code"], 403, "{json_rpc_id:?}");
        }
    }
}

#[test]
fn errors_are_not_streamed_except_for_a2a() {
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
