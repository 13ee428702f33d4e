//! A request as the mock LLM understands it: which API, which model, streamed or not, and what was said last.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde_json::Value;

use crate::format::Format;

/// Keys whose strings are envelope: two requests that differ only in these ask the same thing.
const ENVELOPE: [&str; 12] = [
    "id",
    "tool_call_id",
    "tool_use_id",
    "call_id",
    "type",
    "kind",
    "role",
    "messageId",
    "contextId",
    "taskId",
    "cache_control",
    "media_type",
];

/// What a request asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The API.
    pub format: Format,
    /// The path, without the query.
    pub path: String,
    /// The query, empty if there is none.
    pub query: String,
    /// The request's headers.
    pub headers: HeaderMap,
    /// The model named, or the mock's own.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// The text of the last message.
    pub last: String,
    /// The body; null where it is not JSON.
    pub body: Value,
}

impl Ask {
    /// Reads a request.
    pub fn read(head: &Parts, body: &[u8]) -> Ask {
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let format = format_of(&path, &json);
        let stream = wants_stream(format, &path, &head.headers, &json);
        let last = match last_message(format, &json) {
            Value::Null => String::from_utf8_lossy(body).into_owned(),
            message => said(message),
        };
        let model = model_of(format, &path, &json);
        Ask { format, path, query, headers: head.headers.clone(), model, stream, last, body: json }
    }

    /// The JSON-RPC id, null where there is none.
    pub fn rpc_id(&self) -> &Value {
        &self.body["id"]
    }

    /// The JSON-RPC method, empty where there is none.
    pub fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// Whether it is a JSON-RPC notification, which nobody answers.
    pub fn is_notification(&self) -> bool {
        self.rpc_method().starts_with("notifications/")
    }
}

/// The end of the path decides, since proxies put prefixes before it; JSON-RPC is known by its body.
fn format_of(path: &str, body: &Value) -> Format {
    if body["jsonrpc"].is_string() {
        let method = body["method"].as_str().unwrap_or_default();
        return if method.starts_with("message/") { Format::A2a } else { Format::Mcp };
    }
    match path {
        path if path.ends_with("/chat/completions") => Format::OpenAiChat,
        path if path.ends_with("/completions") => Format::OpenAiCompletions,
        path if path.ends_with("/responses") => Format::OpenAiResponses,
        path if path.ends_with("/v1/messages") => Format::Anthropic,
        path if path.ends_with("enerateContent") => Format::Gemini,
        path if path.ends_with("/api/chat") => Format::OllamaChat,
        path if path.ends_with("/api/generate") => Format::OllamaGenerate,
        _ => Format::Other,
    }
}

fn wants_stream(format: Format, path: &str, headers: &HeaderMap, body: &Value) -> bool {
    match format {
        Format::Gemini => path.ends_with(":streamGenerateContent"),
        Format::OllamaChat | Format::OllamaGenerate => body["stream"] != false,
        // MCP servers answer a client that takes events with events.
        Format::Mcp => headers
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.as_bytes().windows(17).any(|part| part == b"text/event-stream")),
        Format::A2a => body["method"] == "message/stream",
        _ => body["stream"] == true,
    }
}

fn model_of(format: Format, path: &str, body: &Value) -> String {
    let named = match format {
        Format::Gemini => path.rsplit('/').next().and_then(|last| last.split(':').next()),
        _ => body["model"].as_str(),
    };
    named.unwrap_or("mock-1").to_owned()
}

fn last_message(format: Format, body: &Value) -> &Value {
    let last_of = |list: &'static str| body[list].as_array().and_then(|list| list.last()).unwrap_or(&Value::Null);
    match format {
        Format::OpenAiChat | Format::Anthropic | Format::OllamaChat => last_of("messages"),
        Format::OpenAiCompletions | Format::OllamaGenerate => &body["prompt"],
        Format::OpenAiResponses if body["input"].is_array() => last_of("input"),
        Format::OpenAiResponses => &body["input"],
        Format::Gemini => last_of("contents"),
        Format::Mcp => &body["params"],
        Format::A2a => &body["params"]["message"],
        Format::Other => body,
    }
}

/// All that a message says, without its envelope, in reading order.
fn said(message: &Value) -> String {
    match message {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(said).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => {
            let told = fields.iter().filter(|(key, _)| !ENVELOPE.contains(&key.as_str()));
            told.map(|(_, value)| said(value)).collect::<Vec<_>>().join(" ")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
