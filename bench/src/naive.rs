//! The pipeline by simple means: the whole body as a JSON value, regular expressions over the whole text, 64 counters for
//! every feature.
//!
//! The fast pipeline is measured against it, and must find the same fingerprint in every bit. It reads chat requests only
//! and never samples: above about 100 KB of text the fast one reads less, and finds another fingerprint.

use agent_kill_switch::fingerprint::naive::simhash::Counters;
use agent_kill_switch::fingerprint::{Fingerprint, hash_bytes};
use agent_kill_switch::turn::{ToolSignature, ToolTurn};
use agent_kill_switch::wire::Counting;
use serde_json::Value;

/// Returns the fingerprint of the fresh input of a chat request, and its tool calls.
pub fn decode(body: &[u8], counting: Counting) -> Option<(Fingerprint, ToolTurn)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let messages = body["messages"].as_array()?;
    let fresh = match counting {
        Counting::Literal => last_of_user(messages),
        Counting::Progress => since_the_model_spoke(messages),
    };
    let mut counters = Counters::default();
    for message in &fresh {
        push(&message["content"], &mut counters);
    }
    let has_results = fresh.iter().any(|message| message["role"] == "tool") || counting == Counting::Literal;
    let tools = signature(messages).filter(|_| has_results).map_or(ToolTurn::None, ToolTurn::Results);
    Some((counters.finish(), tools))
}

/// Returns the last user message, or the last message if there is none.
fn last_of_user(messages: &[Value]) -> Vec<&Value> {
    let user = messages.iter().rev().find(|message| message["role"] == "user");
    user.or(messages.last()).into_iter().collect()
}

/// Returns all messages after the model's last one that are not instructions, or the last message if there are none.
fn since_the_model_spoke(messages: &[Value]) -> Vec<&Value> {
    let is_model = |message: &&Value| message["role"] == "assistant";
    let end = messages.len() - messages.iter().rev().take_while(is_model).count();
    let said = &messages[..end];
    let start = end - said.iter().rev().take_while(|message| !is_model(message)).count();
    let is_instruction = |message: &&Value| message["role"] == "system" || message["role"] == "developer";
    let fresh: Vec<&Value> = said[start..].iter().filter(|message| !is_instruction(message)).collect();
    if fresh.is_empty() { messages.last().into_iter().collect() } else { fresh }
}

fn push(content: &Value, counters: &mut Counters) {
    match content {
        Value::String(text) => counters.text(text),
        Value::Array(blocks) => {
            for block in blocks {
                match &block["text"] {
                    Value::String(text) => counters.text(text),
                    _ => counters.opaque(block["image_url"].to_string().as_bytes()),
                }
            }
        }
        _ => {}
    }
}

/// Returns a hash of the calls in the model's last message. The fast pipeline computes another hash of the same calls.
fn signature(messages: &[Value]) -> Option<ToolSignature> {
    let last = messages.iter().rev().find(|message| message["role"] == "assistant")?;
    let calls = last["tool_calls"].as_array()?;
    let mut texts: Vec<String> = calls
        .iter()
        .map(|call| {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let canonical = serde_json::from_str::<Value>(arguments).map(|value| value.to_string());
            format!("{} {}", call["function"]["name"], canonical.unwrap_or_default())
        })
        .collect();
    texts.sort();
    texts.dedup();
    Some(ToolSignature::new(hash_bytes(texts.join("\n").as_bytes())))
}
