//! A request as a service understands it: which API, which model, streamed or not, and what was said last.

use http::{HeaderMap, Uri, header};
use serde_json::Value;

use crate::format::Format;

/// Keys whose values are not content: two requests that differ only in these ask the same thing.
#[rustfmt::skip]
const ENVELOPE: [&str; 12] = [
    "id", "tool_call_id", "tool_use_id", "call_id", "type", "kind", "role", "messageId", "contextId", "taskId",
    "cache_control", "media_type",
];

/// What a request asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    pub format: Format,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    /// The model that is named, or `mock-1`.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    pub last: String,
    /// The body; null if it is not JSON.
    pub body: Value,
}

impl Ask {
    /// Reads a request from the bytes of its body.
    pub fn read(uri: &Uri, headers: HeaderMap, body: &[u8]) -> Ask {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = || String::from_utf8_lossy(body).into_owned();
        Ask::new(uri, headers, json, text)
    }

    /// Reads a request whose body has been parsed. `text` returns the body for a request without a message.
    pub fn new(uri: &Uri, headers: HeaderMap, json: Value, text: impl FnOnce() -> String) -> Ask {
        let path = uri.path().to_owned();
        let query = uri.query().unwrap_or_default().to_owned();
        let format = format_of(&path, &json);
        let stream = wants_stream(format, &path, &headers, &json);
        let last = match last_message(format, &json) {
            Value::Null => text(),
            message => said(message),
        };
        let model = model_of(format, &path, &json);
        Ask { format, path, query, headers, model, stream, last, body: json }
    }

    /// The JSON-RPC id; null if there is none.
    pub fn rpc_id(&self) -> &Value {
        &self.body["id"]
    }

    /// The JSON-RPC method; empty if there is none.
    pub fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// Whether the client accepts server-sent events.
    pub fn accepts_events(&self) -> bool {
        accepts_events(&self.headers)
    }

    /// Whether it is a JSON-RPC notification, which gets no answer.
    pub fn is_notification(&self) -> bool {
        self.rpc_method().starts_with("notifications/")
    }
}

/// Recognises JSON-RPC by its body and other formats by the end of the path, since proxies put prefixes before it.
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
        // MCP servers answer with events if the client accepts them.
        Format::Mcp => accepts_events(headers),
        Format::A2a => body["method"] == "message/stream",
        _ => body["stream"] == true,
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/event-stream"))
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

/// Returns all the text of a message without its envelope, in reading order.
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
