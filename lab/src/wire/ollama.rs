//! Ollama `chat` and `generate`: one JSON object, or one per line, each with its time.

use serde_json::{Value, json};

use super::{Ask, usage};
use crate::answer::Answer;
use crate::format::Format;
use crate::fresh;
use crate::json;

pub fn whole(ask: &Ask, answer: &Answer) -> Value {
    finished(object(ask, &answer.text, answer), ask, answer)
}

/// Returns the answer as lines: the text in pieces, the tool calls, and a last line with the statistics.
pub fn lines(ask: &Ask, answer: &Answer) -> Vec<String> {
    let silent = Answer::default();
    let mut objects: Vec<Value> = answer.text_pieces().into_iter().map(|text| object(ask, text, &silent)).collect();
    if !answer.tool_calls.is_empty() {
        objects.push(object(ask, "", answer));
    }
    objects.push(finished(object(ask, "", &silent), ask, answer));
    objects.iter().map(|object| format!("{}\n", json::text(object))).collect()
}

fn object(ask: &Ask, text: &str, answer: &Answer) -> Value {
    let mut object = json!({"model": ask.model, "created_at": fresh::rfc3339()});
    if ask.format == Format::OllamaGenerate {
        object["response"] = json!(text);
    } else {
        object["message"] = json!({"role": "assistant", "content": text});
        if !answer.tool_calls.is_empty() {
            object["message"]["tool_calls"] = answer
                .tool_calls
                .iter()
                .enumerate()
                .map(|(index, call)| {
                    let function = json!({"index": index, "name": call.name, "arguments": call.arguments});
                    json!({"id": call.id, "function": function})
                })
                .collect();
        }
    }
    object["done"] = json!(false);
    object
}

fn finished(mut object: Value, ask: &Ask, answer: &Answer) -> Value {
    let (asked, answered) = usage(ask, answer);
    let nanos = fastrand::u64(400_000_000..500_000_000);
    object["done"] = json!(true);
    object["done_reason"] = json!("stop");
    if ask.format == Format::OllamaGenerate {
        object["context"] = json!([128_006, 882, 128_007, 271]);
    }
    object["total_duration"] = json!(nanos);
    object["load_duration"] = json!(nanos / 10);
    object["prompt_eval_count"] = json!(asked);
    object["prompt_eval_duration"] = json!(nanos / 5);
    object["eval_count"] = json!(answered);
    object["eval_duration"] = json!(nanos / 2);
    object
}
