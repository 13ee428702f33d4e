//! Server-sent events, written and read.

use serde_json::Value;

use crate::json;

/// One event without a name: `data: {...}`.
pub fn data(value: &Value) -> String {
    format!("data: {}\n\n", json::text(value))
}

/// One named event; Anthropic, OpenAI's Responses and MCP name theirs.
pub fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {}\n\n", json::text(value))
}

/// The JSON of every event in a whole stream. What is not JSON, such as `[DONE]`, is left out.
pub fn read(stream: &str) -> Vec<Value> {
    stream
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}
