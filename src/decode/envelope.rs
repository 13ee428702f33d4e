//! What a refusal must know about the request: its format, and how the client expects the answer.
//!
//! This is read only when a request is refused, which is rare. If the body cannot be read, the path has to do.

use super::format::{Fields, by_path, choose, errors_by_path, is_not_a_call};
use super::json::Json;
use crate::turn::Format;

/// How many requests of an array are refused one by one. A reply to each of many would be much longer than the request.
const MAX_BATCH_IDS: usize = 100;

/// What a refusal must know about the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The API that the client speaks.
    pub format: Format,
    /// How the client expects the answer.
    pub delivery: Delivery,
    /// The id of a JSON-RPC request, as JSON.
    pub json_rpc_id: Option<String>,
    /// The ids of the requests, if the body is an array of JSON-RPC requests. At most [`MAX_BATCH_IDS`] of them.
    pub batch_ids: Vec<String>,
    /// The model that the request names.
    pub model: Option<String>,
    /// Whether the request is a call, which can be answered with a completion.
    pub is_call: bool,
}

/// How a client expects the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// In one piece.
    Whole,
    /// As the stream that the format uses: server-sent events, lines of JSON, or AWS event-stream frames.
    Streamed,
    /// As a JSON array that grows. Gemini streams like this to clients that do not ask for `alt=sse`.
    JsonArray,
}

impl Delivery {
    /// Returns how `format` streams to a client that asked for a stream at `path`, which includes the query.
    pub fn streamed(format: Format, path: &str) -> Self {
        let query = path.split_once('?').map_or("", |(_, query)| query);
        match format {
            Format::Gemini if !query.split('&').any(|pair| pair == "alt=sse") => Self::JsonArray,
            _ => Self::Streamed,
        }
    }
}

/// Reads what the path alone tells.
pub fn from_path(path: &str) -> Envelope {
    let format = errors_by_path(path).unwrap_or(Format::Other);
    let streams = path.contains(":streamGenerateContent") || path.ends_with("/converse-stream");
    let delivery = if streams { Delivery::streamed(format, path) } else { Delivery::Whole };
    let is_call = by_path(path.as_bytes()).is_some();
    Envelope { format, delivery, json_rpc_id: None, batch_ids: Vec::new(), model: None, is_call }
}

/// Reads what the path and the body tell.
pub fn read(path: &str, body: &[u8]) -> Envelope {
    let mut envelope = from_path(path);
    // A request to count tokens looks like the call whose tokens it counts.
    if is_not_a_call(path.as_bytes()) {
        return envelope;
    }
    let Ok(root) = Json::root(body) else { return envelope };
    let batch: Vec<_> = root.elements().filter_map(Result::ok).collect();
    let format_of =
        |request| Fields::read(request, &mut |_, _| {}).map(|fields| choose(by_path(path.as_bytes()), &fields));
    let call = batch.iter().find(|request| format_of(**request).is_ok_and(|format| format != Format::Other));
    let root = *call.or(batch.first()).unwrap_or(&root);
    let Ok(fields) = Fields::read(root, &mut |_, _| {}) else { return envelope };
    let format = choose(by_path(path.as_bytes()), &fields);
    // Bedrock streams the events of any model in frames of its own, so there is no completion for this path.
    envelope.is_call = format != Format::Other && !path.ends_with("/invoke-with-response-stream");
    if format != Format::Other {
        envelope.format = format;
    } else if fields.json_rpc {
        envelope.format = Format::Mcp;
    }
    let member = |name| root.get(name).ok().flatten();
    let text = |value: Json<'_>| String::from_utf8(value.text().to_vec()).ok();
    envelope.model =
        member("model").and_then(Json::string).and_then(|model| String::from_utf8(model.raw().to_vec()).ok());
    if fields.json_rpc {
        envelope.json_rpc_id = member("id").and_then(text);
        let id = |request: Json<'_>| request.get("id").ok().flatten().filter(|id| !id.is_null()).and_then(text);
        envelope.batch_ids = batch.into_iter().filter_map(id).take(MAX_BATCH_IDS).collect();
    }
    let by_default = matches!(envelope.format, Format::OllamaChat | Format::OllamaGenerate);
    let streams = member("stream").map_or(by_default, Json::is_true) || fields.streams();
    if streams {
        envelope.delivery = Delivery::streamed(envelope.format, path);
    }
    envelope
}
