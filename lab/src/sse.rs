//! Writes and reads server-sent events.

use serde_json::Value;

use crate::json;

/// Returns an event without a name: `data: {...}`.
pub fn data(value: &Value) -> String {
    format!("data: {}\n\n", json::text(value))
}

/// Returns a named event, as Anthropic, OpenAI's Responses and MCP send them.
pub fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {}\n\n", json::text(value))
}

/// Returns the JSON of every event in a whole stream. Data that is not JSON, such as `[DONE]`, is left out.
pub fn read(stream: &str) -> Vec<Value> {
    stream
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}
