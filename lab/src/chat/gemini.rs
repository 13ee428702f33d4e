//! A conversation with Gemini. Tool calls have no ids: results are matched by name and order. Streams as events.

use serde_json::{Value, json};

use super::{Conversation, Request, SYSTEM, Turn, text, tools};
use crate::answer::{Answer, ToolCall};
use crate::format::Format;
use crate::sse;

pub(super) fn request(conversation: &Conversation) -> Request {
    let contents: Vec<Value> = conversation.turns.iter().map(turn).collect();
    let body = json!({
        "contents": contents,
        "systemInstruction": {"parts": [{"text": SYSTEM}]},
        "tools": [{"functionDeclarations": tools("parametersJsonSchema")}],
    });
    let method = if conversation.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let path = format!("/v1beta/models/{}:{method}", conversation.model);
    Request::new(Format::Gemini, path, body).with("x-goog-api-key", "lab")
}

fn turn(turn: &Turn) -> Value {
    match turn {
        Turn::User(text) => json!({"role": "user", "parts": [{"text": text}]}),
        Turn::Assistant { text, calls } => {
            let text = (!text.is_empty()).then(|| json!({"text": text}));
            let calls = calls.iter().map(|call| json!({"functionCall": {"name": call.name, "args": call.arguments}}));
            json!({"role": "model", "parts": text.into_iter().chain(calls).collect::<Vec<_>>()})
        }
        Turn::Results(results) => {
            let parts: Vec<Value> = results
                .iter()
                .map(|(call, result)| json!({"functionResponse": {"name": call.name, "response": {"result": result}}}))
                .collect();
            json!({"role": "user", "parts": parts})
        }
    }
}

pub(super) fn read(body: &str) -> Answer {
    let responses = match serde_json::from_str(body) {
        Ok(Value::Array(responses)) => responses,
        Ok(whole) => vec![whole],
        Err(_) => sse::read(body),
    };
    let mut answer = Answer::default();
    let parts = responses.iter().filter_map(|response| response["candidates"][0]["content"]["parts"].as_array());
    for part in parts.flatten() {
        answer.text.push_str(text(&part["text"]));
        if let Some(name) = part["functionCall"]["name"].as_str() {
            answer.tool_calls.push(ToolCall::new(name, part["functionCall"]["args"].clone()));
        }
    }
    answer
}
