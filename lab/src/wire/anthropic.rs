//! Anthropic Messages: an answer is a list of content blocks, streamed as named events.

use serde_json::{Value, json};

use super::{Ask, halves, usage};
use crate::answer::{Answer, ToolCall};
use crate::fresh;
use crate::sse;

pub fn whole(ask: &Ask, answer: &Answer) -> Value {
    let (_, answered) = usage(ask, answer);
    let text = (!answer.text.is_empty()).then(|| json!({"type": "text", "text": answer.text}));
    let calls = answer.tool_calls.iter().map(|call| tool_use(call, call.arguments.clone()));
    let content: Vec<Value> = text.into_iter().chain(calls).collect();
    let mut message = message(ask, answer, answered);
    message["content"] = json!(content);
    message["stop_reason"] = json!(stop_reason(answer));
    message
}

/// Returns the answer as events: the message, a ping, each block with its deltas, and at last why it stopped.
pub fn events(ask: &Ask, answer: &Answer) -> Vec<String> {
    let event = |name: &str, mut fields: Value| {
        fields["type"] = json!(name);
        sse::event(name, &fields)
    };
    let block = |index: usize, opening: Value, deltas: Vec<Value>| {
        let start = event("content_block_start", json!({"index": index, "content_block": opening}));
        let deltas =
            deltas.into_iter().map(|delta| event("content_block_delta", json!({"index": index, "delta": delta})));
        let stop = event("content_block_stop", json!({"index": index}));
        [start].into_iter().chain(deltas).chain([stop]).collect::<Vec<_>>()
    };

    let mut events = vec![event("message_start", json!({"message": message(ask, answer, 1)}))];
    events.push(event("ping", json!({})));
    let mut index = 0;
    if !answer.text.is_empty() {
        let deltas = answer.text_pieces().into_iter().map(|text| json!({"type": "text_delta", "text": text}));
        events.extend(block(index, json!({"type": "text", "text": ""}), deltas.collect()));
        index += 1;
    }
    for (offset, call) in answer.tool_calls.iter().enumerate() {
        let arguments = call.arguments_text();
        let parts = [""].into_iter().chain(halves(&arguments));
        let deltas = parts.map(|part| json!({"type": "input_json_delta", "partial_json": part}));
        events.extend(block(index + offset, tool_use(call, json!({})), deltas.collect()));
    }
    let (_, answered) = usage(ask, answer);
    let delta = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    events.push(event("message_delta", json!({"delta": delta, "usage": {"output_tokens": answered}})));
    events.push(event("message_stop", json!({})));
    events
}

pub fn error(answer: &Answer) -> Value {
    let kind = match answer.status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({
        "type": "error",
        "error": {"type": kind, "message": answer.text},
        "request_id": fresh::id("req_", 24),
    })
}

fn message(ask: &Ask, answer: &Answer, answered: usize) -> Value {
    let (asked, _) = usage(ask, answer);
    json!({
        "id": fresh::id("msg_", 24), "type": "message", "role": "assistant", "model": ask.model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": asked, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": answered, "service_tier": "standard",
        },
    })
}

fn tool_use(call: &ToolCall, input: Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn stop_reason(answer: &Answer) -> &'static str {
    if answer.tool_calls.is_empty() { "end_turn" } else { "tool_use" }
}
