//! A conversation in Anthropic Messages. All content is in blocks: the string form is a shorthand that agents with tools
//! do not use.

use serde_json::{Value, json};

use super::{Conversation, Growing, Request, SYSTEM, TOOLS, Turn, schema};
use crate::answer::{Answer, ToolCall};
use crate::format::Format;
use crate::sse;

pub(super) fn request(conversation: &Conversation) -> Request {
    let messages: Vec<Value> = conversation.turns.iter().map(turn).collect();
    let tools: Vec<Value> = TOOLS
        .iter()
        .map(|(name, description)| json!({"name": name, "description": description, "input_schema": schema()}))
        .collect();
    let system = json!([{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]);
    let mut body = json!({
        "model": conversation.model, "max_tokens": 1024, "system": system, "messages": messages, "tools": tools,
    });
    if conversation.stream {
        body["stream"] = json!(true);
    }
    let headers = [("x-api-key", "sk-ant-lab"), ("anthropic-version", "2023-06-01")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Request { format: Format::Anthropic, path: "/v1/messages".to_owned(), headers, body }
}

fn turn(turn: &Turn) -> Value {
    match turn {
        Turn::User(text) => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
        Turn::Assistant { text, calls } => {
            let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            let calls = calls
                .iter()
                .map(|call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}));
            json!({"role": "assistant", "content": text.into_iter().chain(calls).collect::<Vec<_>>()})
        }
        Turn::Results(results) => {
            let blocks: Vec<Value> = results
                .iter()
                .map(|(call, result)| {
                    let content = json!([{"type": "text", "text": result}]);
                    json!({"type": "tool_result", "tool_use_id": call.id, "content": content})
                })
                .collect();
            json!({"role": "user", "content": blocks})
        }
    }
}

pub(super) fn read(body: &str) -> Answer {
    match serde_json::from_str(body) {
        Ok(whole) => read_whole(&whole),
        Err(_) => read_events(&sse::read(body)),
    }
}

fn read_whole(whole: &Value) -> Answer {
    let mut answer = Answer::default();
    for block in whole["content"].as_array().into_iter().flatten() {
        answer.text.push_str(block["text"].as_str().unwrap_or_default());
        if block["type"] == "tool_use" {
            let id = block["id"].as_str().unwrap_or_default().to_owned();
            let name = block["name"].as_str().unwrap_or_default().to_owned();
            answer.tool_calls.push(ToolCall { id, name, arguments: block["input"].clone() });
        }
    }
    answer
}

fn read_events(events: &[Value]) -> Answer {
    let (mut text, mut calls) = (String::new(), Growing::default());
    for event in events {
        let block = &event["content_block"];
        if block["type"] == "tool_use" {
            calls.begin(&block["id"], &block["name"]);
        }
        text.push_str(event["delta"]["text"].as_str().unwrap_or_default());
        calls.more(&event["delta"]["partial_json"]);
    }
    Answer { text, tool_calls: calls.done(), ..Answer::default() }
}
