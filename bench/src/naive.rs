//! The pipeline by the obvious means: the whole body as a JSON value, regular expressions over the whole text, 64 counters
//! for every feature.
//!
//! What the fast one is measured against, and its oracle: it finds the same fingerprint, in every bit. Chat requests
//! only, and no sampling: beyond about 100 KB of text the fast one reads less, and finds another fingerprint.

use agent_kill_switch::fingerprint::naive::simhash::Counters;
use agent_kill_switch::fingerprint::{Fingerprint, hash_bytes};
use agent_kill_switch::turn::{ToolSignature, ToolTurn};
use agent_kill_switch::wire::Counting;
use serde_json::Value;

/// What a chat request brings: the fingerprint of what is new, and the tools it is about.
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

/// The last user's message, or the last one.
fn last_of_user(messages: &[Value]) -> Vec<&Value> {
    let user = messages.iter().rev().find(|message| message["role"] == "user");
    user.or(messages.last()).into_iter().collect()
}

/// All messages after the model's last one that are no instructions; without any, the last one.
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

/// The calls of the model's last message. Not the fast one's number, but as telling.
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
