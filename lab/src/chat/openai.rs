//! A conversation in OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{Conversation, Growing, Request, SYSTEM, Turn, functions, text};
use crate::answer::Answer;
use crate::format::Format;
use crate::sse;

pub(super) fn request(conversation: &Conversation) -> Request {
    let mut messages = vec![json!({"role": "system", "content": SYSTEM})];
    messages.extend(conversation.turns.iter().flat_map(turn));
    let mut body = json!({"model": conversation.model, "messages": messages, "tools": functions()});
    if conversation.stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    Request::new(Format::OpenAiChat, "/v1/chat/completions", body).with("authorization", "Bearer sk-lab")
}

fn turn(turn: &Turn) -> Vec<Value> {
    match turn {
        Turn::User(text) => vec![json!({"role": "user", "content": text})],
        Turn::Assistant { text, calls } if calls.is_empty() => vec![json!({"role": "assistant", "content": text})],
        Turn::Assistant { text, calls } => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let function = json!({"name": call.name, "arguments": call.arguments_text()});
                    json!({"id": call.id, "type": "function", "function": function})
                })
                .collect();
            vec![json!({"role": "assistant", "content": content, "tool_calls": calls})]
        }
        Turn::Results(results) => results
            .iter()
            .map(|(call, result)| json!({"role": "tool", "tool_call_id": call.id, "content": result}))
            .collect(),
    }
}

pub(super) fn read(body: &str) -> Answer {
    let (messages, part) = match serde_json::from_str::<Value>(body) {
        Ok(whole) => (vec![whole], "message"),
        Err(_) => (sse::read(body), "delta"),
    };
    let (mut said, mut calls) = (String::new(), Growing::default());
    for message in &messages {
        let message = &message["choices"][0][part];
        said.push_str(text(&message["content"]));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            if call["id"].is_string() {
                calls.begin(&call["id"], &call["function"]["name"]);
            }
            calls.more(&call["function"]["arguments"]);
        }
    }
    Answer { text: said, tool_calls: calls.done(), ..Answer::default() }
}
