//! Which API a request speaks: by its path and by the shape of its body.
//!
//! Paths are matched by how they end, since gateways put prefixes before them. Where the path says nothing, the body
//! does.

use super::json::{Json, Malformed};
use crate::turn::Format;

/// The members of a request's body that matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// `messages`, in most chat formats.
    pub messages: Option<Json<'a>>,
    /// `input`, in the Responses API.
    pub input: Option<Json<'a>>,
    /// `contents`, in Gemini's.
    pub contents: Option<Json<'a>>,
    /// `prompt`, in completions.
    pub prompt: Option<Json<'a>>,
    /// `params` of JSON-RPC.
    pub params: Option<Json<'a>>,
    /// Whether this is JSON-RPC.
    pub json_rpc: bool,
    /// `method` of JSON-RPC.
    method: Option<Json<'a>>,
    /// Whether there are instructions beside the messages.
    system: bool,
}

impl<'a> Fields<'a> {
    /// Reads them off, in one pass over the body.
    pub fn read(root: Json<'a>) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        for member in root.members() {
            let (name, value) = member?;
            match name.raw() {
                b"messages" => fields.messages = Some(value),
                b"input" => fields.input = Some(value),
                b"contents" => fields.contents = Some(value),
                b"prompt" => fields.prompt = Some(value),
                b"params" => fields.params = Some(value),
                b"method" => fields.method = Some(value),
                b"jsonrpc" => fields.json_rpc = true,
                b"system" => fields.system = true,
                _ => {}
            }
        }
        Ok(fields)
    }

    /// Whether what is asked comes as a list of messages or items, rather than of prompts.
    pub fn is_conversation(&self) -> bool {
        self.messages.or(self.input).or(self.contents).is_some()
    }

    /// Whether the method itself asks for a stream (A2A).
    pub fn streams(&self) -> bool {
        self.json_rpc && self.is_method("message/stream")
    }

    fn is_method(&self, name: &str) -> bool {
        self.method.and_then(Json::string).is_some_and(|method| method.is(name))
    }
}

/// Decides the format.
pub fn choose(path: &[u8], fields: &Fields<'_>) -> Format {
    if fields.json_rpc {
        return match () {
            () if fields.is_method("tools/call") => Format::Mcp,
            () if fields.is_method("message/send") || fields.is_method("message/stream") => Format::A2a,
            () => Format::Other,
        };
    }
    let asks = fields.messages.or(fields.input).or(fields.contents).or(fields.prompt).is_some();
    match by_path(path) {
        Some(format) if asks => format,
        _ => by_shape(fields),
    }
}

/// What the path says of itself. Bodies that do not fit are judged by their shape.
pub fn by_path(path: &[u8]) -> Option<Format> {
    const ENDINGS: [(&str, Format); 11] = [
        ("/chat/completions", Format::OpenAiChat),
        ("/completions", Format::OpenAiCompletions),
        ("/responses", Format::OpenAiResponses),
        ("/messages", Format::Anthropic),
        (":generateContent", Format::Gemini),
        (":streamGenerateContent", Format::Gemini),
        ("/converse", Format::Bedrock),
        ("/converse-stream", Format::Bedrock),
        ("/api/chat", Format::OllamaChat),
        ("/api/generate", Format::OllamaGenerate),
        ("/v2/chat", Format::Cohere),
    ];
    let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
    let path = path.strip_suffix(b"/").unwrap_or(path);
    ENDINGS.iter().find(|(ending, _)| path.ends_with(ending.as_bytes())).map(|(_, format)| *format)
}

fn by_shape(fields: &Fields<'_>) -> Format {
    match fields {
        Fields { messages: Some(_), system: true, .. } => Format::Anthropic,
        Fields { messages: Some(_), .. } => Format::OpenAiChat,
        Fields { contents: Some(_), .. } => Format::Gemini,
        Fields { input: Some(_), .. } => Format::OpenAiResponses,
        Fields { prompt: Some(_), .. } => Format::OpenAiCompletions,
        _ => Format::Other,
    }
}
