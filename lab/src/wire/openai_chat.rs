//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{Ask, halves, usage};
use crate::answer::Answer;
use crate::fresh;
use crate::sse;

pub fn whole(ask: &Ask, answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": content(answer), "refusal": null, "annotations": []});
    if !answer.tool_calls.is_empty() {
        message["tool_calls"] = answer.tool_calls.iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text()}})
        }).collect();
    }
    json!({
        "id": fresh::id("chatcmpl-", 29),
        "object": "chat.completion",
        "created": fresh::unix_seconds(),
        "model": ask.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(answer)}],
        "usage": usage_field(ask, answer),
        "service_tier": "default",
        "system_fingerprint": fresh::id("fp_", 10),
    })
}

/// Returns the answer as chunks, `[DONE]` last. All have the same id, and each its own padding, as with the service.
pub fn events(ask: &Ask, answer: &Answer) -> Vec<String> {
    let (id, created, fingerprint) = (fresh::id("chatcmpl-", 29), fresh::unix_seconds(), fresh::id("fp_", 10));
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": created, "model": ask.model,
            "service_tier": "default", "system_fingerprint": fingerprint, "choices": choices,
        });
        if ask.body["stream_options"]["include_usage"] == true {
            chunk["usage"] = usage;
        }
        chunk["obfuscation"] = json!(fresh::obfuscation());
        sse::data(&chunk)
    };
    let choice = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        chunk(json!([choice]), Value::Null)
    };

    let opening = if answer.tool_calls.is_empty() { json!("") } else { Value::Null };
    let mut events = vec![choice(json!({"role": "assistant", "content": opening, "refusal": null}), Value::Null)];
    events.extend(answer.text_pieces().into_iter().map(|text| choice(json!({"content": text}), Value::Null)));
    for (index, call) in answer.tool_calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let start = json!({"index": index, "id": call.id, "type": "function", "function": function});
        events.push(choice(json!({"tool_calls": [start]}), Value::Null));
        for part in halves(&call.arguments_text()) {
            let more = json!({"index": index, "function": {"arguments": part}});
            events.push(choice(json!({"tool_calls": [more]}), Value::Null));
        }
    }
    events.push(choice(json!({}), json!(finish_reason(answer))));
    if ask.body["stream_options"]["include_usage"] == true {
        events.push(chunk(json!([]), usage_field(ask, answer)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// Returns an error, as all of OpenAI's APIs send it.
pub fn error(answer: &Answer) -> Value {
    let (kind, code) = match answer.status {
        400 | 404 | 422 => ("invalid_request_error", Value::Null),
        401 => ("invalid_request_error", json!("invalid_api_key")),
        403 => ("invalid_request_error", json!("permission_denied")),
        429 => ("requests", json!("rate_limit_exceeded")),
        _ => ("server_error", Value::Null),
    };
    json!({"error": {"message": answer.text, "type": kind, "param": null, "code": code}})
}

/// Returns `usage` as Chat Completions and Completions have it.
pub fn usage_field(ask: &Ask, answer: &Answer) -> Value {
    let (asked, answered) = usage(ask, answer);
    json!({
        "prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    })
}

fn content(answer: &Answer) -> Value {
    if answer.text.is_empty() && !answer.tool_calls.is_empty() { Value::Null } else { json!(answer.text) }
}

fn finish_reason(answer: &Answer) -> &'static str {
    if answer.tool_calls.is_empty() { "stop" } else { "tool_calls" }
}
