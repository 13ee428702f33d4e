//! What a refusal must know of the request it answers: the format, and how the client wants its answer.
//!
//! Read only when a request is refused, which is rare; a body that cannot be read is answered by what its path says.

use super::format::{Fields, by_path, choose};
use super::json::Json;
use crate::reply::Delivery;
use crate::turn::Format;

/// How a client wants its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The API it speaks.
    pub format: Format,
    /// In one piece or streamed.
    pub delivery: Delivery,
    /// The id that a JSON-RPC client waits for, as JSON.
    pub json_rpc_id: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
}

/// What the path alone says.
pub fn from_path(path: &str) -> Envelope {
    let format = by_path(path.as_bytes()).unwrap_or(Format::Other);
    let streams = path.contains(":streamGenerateContent") || path.ends_with("/converse-stream");
    let delivery = if streams { Delivery::streamed(format, path) } else { Delivery::Whole };
    Envelope { format, delivery, json_rpc_id: None, model: None }
}

/// What path and body say.
pub fn read(path: &str, body: &[u8]) -> Envelope {
    let mut envelope = from_path(path);
    let Ok(root) = Json::root(body) else { return envelope };
    let Ok(fields) = Fields::read(root) else { return envelope };
    envelope.format = choose(by_path(path.as_bytes()), &fields);
    let member = |name| root.get(name).ok().flatten();
    let text = |value: Json<'_>| String::from_utf8(value.text().to_vec()).ok();
    envelope.model =
        member("model").and_then(Json::string).and_then(|model| String::from_utf8(model.raw().to_vec()).ok());
    if fields.json_rpc {
        envelope.json_rpc_id = member("id").and_then(text);
    }
    let by_default = matches!(envelope.format, Format::OllamaChat | Format::OllamaGenerate);
    let streams = member("stream").map_or(by_default, Json::is_true) || fields.streams();
    if streams {
        envelope.delivery = Delivery::streamed(envelope.format, path);
    }
    envelope
}
