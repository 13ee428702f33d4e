//! Which API a request speaks: by its path and by the shape of its body.
//!
//! Paths are matched by how they end, since gateways put prefixes before them. Where the path says nothing, the body
//! does.

use super::json::Json;
use crate::scan::Malformed;
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
    /// `images` beside a prompt, in Ollama's `generate`.
    pub images: Option<Json<'a>>,
    /// `params` of JSON-RPC.
    pub params: Option<Json<'a>>,
    /// Whether this is JSON-RPC.
    pub json_rpc: bool,
    /// `method` of JSON-RPC.
    method: Option<Json<'a>>,
    /// Whether it has what only Anthropic's requests have beside `messages`.
    anthropic: bool,
}

impl<'a> Fields<'a> {
    /// Reads them off, in one pass over the body.
    pub fn read(root: Json<'a>) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        for member in root.members() {
            let (name, value) = member?;
            match &*name.plain() {
                b"messages" => fields.messages = Some(value),
                b"input" => fields.input = Some(value),
                b"contents" => fields.contents = Some(value),
                b"prompt" => fields.prompt = Some(value),
                b"images" => fields.images = Some(value),
                b"params" => fields.params = Some(value),
                b"method" => fields.method = Some(value),
                b"jsonrpc" => fields.json_rpc = true,
                b"system" | b"anthropic_version" => fields.anthropic = true,
                _ => {}
            }
        }
        Ok(fields)
    }

    /// What is asked: messages before a prompt, and what says something before what does not.
    pub fn asked(&self) -> Option<Asked<'a>> {
        let lists = [self.messages, self.input, self.contents].into_iter().flatten().map(Asked::Messages);
        let all = lists.chain(self.prompt.map(Asked::Prompt));
        all.clone().find(|asked| !asked.is_empty()).or(all.last())
    }

    /// Whether the method itself asks for a stream (A2A).
    pub fn streams(&self) -> bool {
        self.json_rpc && self.is_method("message/stream")
    }

    fn is_method(&self, name: &str) -> bool {
        self.method.and_then(Json::string).is_some_and(|method| method.is(name))
    }
}

/// What a request asks, and how it is put.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// As messages or items.
    Messages(Json<'a>),
    /// As a prompt, or several.
    Prompt(Json<'a>),
}

impl Asked<'_> {
    fn is_empty(&self) -> bool {
        let (Self::Messages(value) | Self::Prompt(value)) = self;
        value.is_null() || (value.is_array() && value.elements().next().is_none())
    }
}

/// Decides the format: the one that the path tells, if the body can be of that format.
pub fn choose(told: Option<Format>, fields: &Fields<'_>) -> Format {
    if fields.json_rpc {
        return match () {
            () if fields.is_method("tools/call") => Format::Mcp,
            () if A2A_METHODS.iter().any(|name| fields.is_method(name)) => Format::A2a,
            () => Format::Other,
        };
    }
    match told {
        Some(format) if fields.asked().is_some() => format,
        _ => by_shape(fields),
    }
}

/// What A2A calls it to ask an agent something, in this version of it and in those before and after.
const A2A_METHODS: [&str; 6] =
    ["message/send", "message/stream", "tasks/send", "tasks/sendSubscribe", "SendMessage", "SendStreamingMessage"];

/// Whether the path is one where the same text is only counted, embedded or checked. Clients do that right before they
/// ask it, and would seem to ask everything twice.
pub fn is_no_call(path: &[u8]) -> bool {
    let path = Ending::of(path);
    NO_CALLS.iter().any(|(before, last)| path.is(before, last))
}

/// What the path says of itself. Bodies that do not fit are judged by their shape.
pub fn by_path(path: &[u8]) -> Option<Format> {
    let path = Ending::of(path);
    CALLS.iter().find(|(before, last, _)| path.is(before, last)).map(|(_, _, format)| *format)
}

/// The last two steps of paths where nothing is asked; of most, the last one says enough.
const NO_CALLS: [(&str, &str); 11] = [
    ("", "/count_tokens"),
    ("", "/count-tokens"),
    ("", ":countTokens"),
    ("", "/input_tokens"),
    ("", "/tokenize"),
    ("", "/moderations"),
    ("", "/embeddings"),
    ("/api", "/embed"),
    ("", ":embedContent"),
    ("", ":batchEmbedContents"),
    ("", "/rerank"),
];

/// The same of paths where something is. None is among the others.
const CALLS: [(&str, &str, Format); 11] = [
    ("/chat", "/completions", Format::OpenAiChat),
    ("", "/completions", Format::OpenAiCompletions),
    ("", "/responses", Format::OpenAiResponses),
    ("", "/messages", Format::Anthropic),
    ("", ":generateContent", Format::Gemini),
    ("", ":streamGenerateContent", Format::Gemini),
    ("", "/converse", Format::Bedrock),
    ("", "/converse-stream", Format::Bedrock),
    ("/api", "/chat", Format::OllamaChat),
    ("/api", "/generate", Format::OllamaGenerate),
    ("/v2", "/chat", Format::Cohere),
];

/// How a path ends, a query aside: its last step, with the slash or colon before it. Most steps differ in length
/// already, which makes comparing them cheap.
struct Ending<'a> {
    before: &'a [u8],
    last: &'a [u8],
}

impl<'a> Ending<'a> {
    fn of(path: &'a [u8]) -> Self {
        let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let start = path.iter().rposition(|byte| matches!(byte, b'/' | b':')).unwrap_or_default();
        let (before, last) = path.split_at_checked(start).unwrap_or_default();
        Self { before, last }
    }

    fn is(&self, before: &str, last: &str) -> bool {
        self.last == last.as_bytes() && self.before.ends_with(before.as_bytes())
    }
}

fn by_shape(fields: &Fields<'_>) -> Format {
    match fields {
        Fields { messages: Some(_), anthropic: true, .. } => Format::Anthropic,
        Fields { messages: Some(_), .. } => Format::OpenAiChat,
        Fields { contents: Some(_), .. } => Format::Gemini,
        Fields { input: Some(_), .. } => Format::OpenAiResponses,
        Fields { prompt: Some(_), .. } => Format::OpenAiCompletions,
        _ => Format::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_is_a_call_and_none() {
        for (before, last, format) in CALLS {
            let path = format!("/v1{before}{last}");
            assert_eq!((by_path(path.as_bytes()), is_no_call(path.as_bytes())), (Some(format), false), "{path}");
        }
        for (before, last) in NO_CALLS {
            let path = format!("/v1{before}{last}/?a=/messages");
            assert_eq!((by_path(path.as_bytes()), is_no_call(path.as_bytes())), (None, true), "{path}");
        }
        assert!(
            by_path(b"completions").is_none() && by_path(b"/other-completions").is_none() && by_path(b"").is_none()
        );
    }
}
