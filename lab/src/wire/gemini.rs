//! Gemini: candidates with parts. A stream is one JSON array that grows, or events with `?alt=sse`. Either way, each piece
//! is a whole response with a part of the text.

use serde_json::{Value, json};

use super::{Ask, usage};
use crate::answer::Answer;
use crate::fresh;
use crate::json;

pub fn whole(ask: &Ask, answer: &Answer) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({"text": answer.text}));
    let parts: Vec<Value> = text.into_iter().chain(calls(answer)).collect();
    response(&fresh::id("", 22), ask, answer, json!(parts), true)
}

/// Returns the stream as events. Lines end in CR LF, as the service's do.
pub fn events(ask: &Ask, answer: &Answer) -> Vec<String> {
    responses(ask, answer).iter().map(|response| format!("data: {}\r\n\r\n", json::text(response))).collect()
}

/// Returns the stream as one array, a response at a time.
pub fn array(ask: &Ask, answer: &Answer) -> Vec<String> {
    let responses = responses(ask, answer);
    let opened = responses.iter().enumerate().map(|(index, response)| {
        let before = if index == 0 { "[" } else { ",\r\n" };
        format!("{before}{}\n", json::text(response))
    });
    opened.chain(["]\n".to_owned()]).collect()
}

pub fn error(answer: &Answer) -> Value {
    let status = match answer.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    json!({"error": {"code": answer.status, "message": answer.text, "status": status}})
}

fn responses(ask: &Ask, answer: &Answer) -> Vec<Value> {
    let id = fresh::id("", 22);
    let texts = answer.text_pieces().into_iter().map(|text| json!({"text": text}));
    let mut parts: Vec<Value> = texts.chain(calls(answer)).collect();
    if parts.is_empty() {
        parts.push(json!({"text": ""}));
    }
    let last = parts.len() - 1;
    let each = parts.into_iter().enumerate();
    each.map(|(index, part)| response(&id, ask, answer, json!([part]), index == last)).collect()
}

fn response(id: &str, ask: &Ask, answer: &Answer, parts: Value, last: bool) -> Value {
    let (asked, answered) = usage(ask, answer);
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": asked, "candidatesTokenCount": answered, "totalTokenCount": asked + answered,
        },
        "modelVersion": ask.model,
        "responseId": id,
    })
}

fn calls(answer: &Answer) -> impl Iterator<Item = Value> {
    answer.tool_calls.iter().map(|call| json!({"functionCall": {"name": call.name, "args": call.arguments}}))
}
