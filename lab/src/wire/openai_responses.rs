//! OpenAI Responses: an answer is a list of items, streamed as named and numbered events.

use serde_json::{Value, json};

use super::{Ask, halves, usage};
use crate::answer::{Answer, ToolCall};
use crate::fresh;
use crate::sse;

pub fn whole(ask: &Ask, answer: &Answer) -> Value {
    let text = (!answer.text.is_empty()).then(|| message(&fresh::id("msg_", 48), &answer.text));
    let calls = answer.tool_calls.iter().map(|call| function_call(&fresh::id("fc_", 48), call, &call.arguments_text()));
    let output: Vec<Value> = text.into_iter().chain(calls).collect();
    let mut response = response(&fresh::id("resp_", 48), ask, "completed");
    response["output"] = json!(output);
    response["usage"] = usage_field(ask, answer);
    response
}

/// Returns the answer as events: created, each item with its parts and deltas, completed.
pub fn events(ask: &Ask, answer: &Answer) -> Vec<String> {
    let id = fresh::id("resp_", 48);
    let mut events = Events::default();
    events.push("response.created", json!({"response": response(&id, ask, "in_progress")}));
    events.push("response.in_progress", json!({"response": response(&id, ask, "in_progress")}));
    let mut output = Vec::new();
    if !answer.text.is_empty() {
        output.push(events.message(answer));
    }
    for call in &answer.tool_calls {
        output.push(events.function_call(output.len(), call));
    }
    let mut completed = response(&id, ask, "completed");
    completed["output"] = json!(output);
    completed["usage"] = usage_field(ask, answer);
    events.push("response.completed", json!({"response": completed}));
    events.sent
}

#[derive(Default)]
struct Events {
    sent: Vec<String>,
}

impl Events {
    fn push(&mut self, name: &str, fields: Value) {
        let event = json!({"type": name, "sequence_number": self.sent.len()});
        self.sent.push(sse::event(name, &merged(event, fields)));
    }

    fn message(&mut self, answer: &Answer) -> Value {
        let id = fresh::id("msg_", 48);
        let opening = json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
        let at = |fields: Value| merged(json!({"item_id": id, "output_index": 0, "content_index": 0}), fields);
        self.push("response.output_item.added", json!({"output_index": 0, "item": opening}));
        self.push("response.content_part.added", at(json!({"part": output_text("")})));
        for text in answer.text_pieces() {
            let delta = json!({"delta": text, "logprobs": [], "obfuscation": fresh::obfuscation()});
            self.push("response.output_text.delta", at(delta));
        }
        self.push("response.output_text.done", at(json!({"text": answer.text, "logprobs": []})));
        self.push("response.content_part.done", at(json!({"part": output_text(&answer.text)})));
        let item = message(&id, &answer.text);
        self.push("response.output_item.done", json!({"output_index": 0, "item": item}));
        item
    }

    fn function_call(&mut self, index: usize, call: &ToolCall) -> Value {
        let (id, arguments) = (fresh::id("fc_", 48), call.arguments_text());
        let at = |fields: Value| merged(json!({"item_id": id, "output_index": index}), fields);
        let mut opening = function_call(&id, call, "");
        opening["status"] = json!("in_progress");
        self.push("response.output_item.added", json!({"output_index": index, "item": opening}));
        for part in halves(&arguments) {
            self.push("response.function_call_arguments.delta", at(json!({"delta": part})));
        }
        let done = at(json!({"name": call.name, "arguments": arguments}));
        self.push("response.function_call_arguments.done", done);
        let item = function_call(&id, call, &arguments);
        self.push("response.output_item.done", json!({"output_index": index, "item": item}));
        item
    }
}

fn response(id: &str, ask: &Ask, status: &str) -> Value {
    json!({
        "id": id, "object": "response", "created_at": fresh::unix_seconds(), "status": status, "error": null,
        "incomplete_details": null, "instructions": ask.body["instructions"], "model": ask.model, "output": [],
        "parallel_tool_calls": true, "previous_response_id": ask.body["previous_response_id"], "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_p": 1.0, "metadata": {}, "usage": null,
    })
}

fn message(id: &str, text: &str) -> Value {
    let content = [output_text(text)];
    json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content})
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

fn function_call(id: &str, call: &ToolCall, arguments: &str) -> Value {
    let (call_id, name) = (&call.id, &call.name);
    json!({"id": id, "type": "function_call", "status": "completed", "call_id": call_id, "name": name, "arguments": arguments})
}

fn usage_field(ask: &Ask, answer: &Answer) -> Value {
    let (asked, answered) = usage(ask, answer);
    json!({
        "input_tokens": asked, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    })
}

fn merged(mut base: Value, more: Value) -> Value {
    if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
        base.extend(more);
    }
    base
}
