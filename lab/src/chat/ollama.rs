//! A conversation with Ollama's `chat`. It streams unless told not to; tool arguments are objects, not text.

use serde_json::{Value, json};

use super::{Conversation, Request, SYSTEM, Turn, functions, text};
use crate::answer::{Answer, ToolCall};
use crate::format::Format;

pub(super) fn request(conversation: &Conversation) -> Request {
    let mut messages = vec![json!({"role": "system", "content": SYSTEM})];
    messages.extend(conversation.turns.iter().flat_map(turn));
    let mut body = json!({"model": conversation.model, "messages": messages, "tools": functions()});
    if !conversation.stream {
        body["stream"] = json!(false);
    }
    Request::new(Format::OllamaChat, "/api/chat", body)
}

fn turn(turn: &Turn) -> Vec<Value> {
    match turn {
        Turn::User(text) => vec![json!({"role": "user", "content": text})],
        Turn::Assistant { text, calls } => {
            let mut message = json!({"role": "assistant", "content": text});
            if !calls.is_empty() {
                let function = |call: &ToolCall| json!({"name": call.name, "arguments": call.arguments});
                message["tool_calls"] = calls.iter().map(|call| json!({"function": function(call)})).collect();
            }
            vec![message]
        }
        Turn::Results(results) => results
            .iter()
            .map(|(call, result)| json!({"role": "tool", "tool_name": call.name, "content": result}))
            .collect(),
    }
}

pub(super) fn read(body: &str) -> Answer {
    let mut answer = Answer::default();
    for line in body.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        answer.text.push_str(text(&line["message"]["content"]));
        for call in line["message"]["tool_calls"].as_array().into_iter().flatten() {
            let (id, function) = (text(&call["id"]).to_owned(), &call["function"]);
            answer
                .tool_calls
                .push(ToolCall { id, ..ToolCall::new(text(&function["name"]), function["arguments"].clone()) });
        }
    }
    answer
}
