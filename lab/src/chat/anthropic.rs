//! A conversation in Anthropic Messages. All content is in blocks: agents with tools do not use the shorter string form.

use serde_json::{Value, json};

use super::{Conversation, Growing, Request, SYSTEM, Turn, text, tools};
use crate::answer::{Answer, ToolCall};
use crate::format::Format;
use crate::sse;

pub(super) fn request(conversation: &Conversation) -> Request {
    let messages: Vec<Value> = conversation.turns.iter().map(turn).collect();
    let system = json!([{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]);
    let mut body = json!({
        "model": conversation.model, "max_tokens": 1024, "system": system, "messages": messages,
        "tools": tools("input_schema"),
    });
    if conversation.stream {
        body["stream"] = json!(true);
    }
    let request = Request::new(Format::Anthropic, "/v1/messages", body);
    request.with("x-api-key", "sk-ant-lab").with("anthropic-version", "2023-06-01")
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
        answer.text.push_str(text(&block["text"]));
        if block["type"] == "tool_use" {
            let [id, name] = ["id", "name"].map(|key| text(&block[key]).to_owned());
            answer.tool_calls.push(ToolCall { id, name, arguments: block["input"].clone() });
        }
    }
    answer
}

fn read_events(events: &[Value]) -> Answer {
    let (mut said, mut calls) = (String::new(), Growing::default());
    for event in events {
        let block = &event["content_block"];
        if block["type"] == "tool_use" {
            calls.begin(&block["id"], &block["name"]);
        }
        said.push_str(text(&event["delta"]["text"]));
        calls.more(&event["delta"]["partial_json"]);
    }
    Answer { text: said, tool_calls: calls.done(), ..Answer::default() }
}
