//! Decides which API a request speaks, by its path and by the shape of its body.
//!
//! Only the end of a path is compared, since gateways put prefixes before it. If the path is unknown, the body decides.

use super::json::Json;
use crate::scan::Malformed;
use crate::turn::Format;

/// The members of a request's body that matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// `messages`, in most chat formats.
    pub messages: Option<Json<'a>>,
    /// `input` of the Responses API.
    pub input: Option<Json<'a>>,
    /// `contents` of Gemini.
    pub contents: Option<Json<'a>>,
    /// `prompt` of completions.
    pub prompt: Option<Json<'a>>,
    /// `images` next to a prompt, in Ollama's `generate`.
    pub images: Option<Json<'a>>,
    /// `params` of JSON-RPC.
    pub params: Option<Json<'a>>,
    /// Whether this is JSON-RPC.
    pub json_rpc: bool,
    /// `method` of JSON-RPC.
    method: Option<Json<'a>>,
    /// Whether there is a member that only Anthropic's requests have next to `messages`.
    anthropic: bool,
}

impl<'a> Fields<'a> {
    /// Reads the members in one pass over the body.
    pub fn read(root: Json<'a>) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        for member in root.members() {
            let (name, value) = member?;
            match &*name.unescaped() {
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

    /// Returns the input of the request. Messages are preferred to a prompt, and members with content to empty ones.
    pub fn request_input(&self) -> Option<RequestInput<'a>> {
        let lists = [self.messages, self.input, self.contents].into_iter().flatten().map(RequestInput::Messages);
        let all = lists.chain(self.prompt.map(RequestInput::Prompt));
        all.clone().find(|input| !input.is_empty()).or(all.last())
    }

    /// Returns whether the method of the request asks for a stream (A2A).
    pub fn streams(&self) -> bool {
        self.json_rpc && self.is_method("message/stream")
    }

    fn is_method(&self, name: &str) -> bool {
        self.method.and_then(Json::string).is_some_and(|method| method.is(name))
    }
}

/// The input of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestInput<'a> {
    /// Messages or items.
    Messages(Json<'a>),
    /// One or several prompts.
    Prompt(Json<'a>),
}

impl RequestInput<'_> {
    fn is_empty(&self) -> bool {
        let (Self::Messages(value) | Self::Prompt(value)) = self;
        value.is_null() || (value.is_array() && value.elements().next().is_none())
    }
}

/// Decides the format: the one of the path, if the body can be of that format, else by the shape of the body.
pub fn choose(of_path: Option<Format>, fields: &Fields<'_>) -> Format {
    if fields.json_rpc {
        return if fields.is_method("tools/call") {
            Format::Mcp
        } else if A2A_METHODS.iter().any(|name| fields.is_method(name)) {
            Format::A2a
        } else {
            Format::Other
        };
    }
    match of_path {
        Some(format) if fields.request_input().is_some() => format,
        _ => by_shape(fields),
    }
}

/// The methods by which A2A sends a message to an agent, in all of its versions.
const A2A_METHODS: [&str; 6] =
    ["message/send", "message/stream", "tasks/send", "tasks/sendSubscribe", "SendMessage", "SendStreamingMessage"];

/// Returns whether the path only counts, embeds or checks a text. Clients often do that right before they send the text to
/// a model, and would seem to send everything twice.
pub fn is_not_a_call(path: &[u8]) -> bool {
    let path = Ending::of(path);
    NOT_CALLS.iter().any(|(before, last)| path.is(before, last))
}

/// Returns the format of a path, if it is a known one.
pub fn by_path(path: &[u8]) -> Option<Format> {
    let path = Ending::of(path);
    CALLS.iter().find(|(before, last, _)| path.is(before, last)).map(|(_, _, format)| *format)
}

/// The ends of the paths that are not calls. Most are identified by their last segment.
const NOT_CALLS: [(&str, &str); 11] = [
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

/// The ends of the paths of calls, and their formats.
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

/// The end of a path, without its query: the last segment with the slash or colon before it, and what is before that.
/// Most segments differ in length, which makes comparing them cheap.
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
    fn every_known_path_is_either_a_call_or_not() {
        for (before, last, format) in CALLS {
            let path = format!("/v1{before}{last}");
            assert_eq!((by_path(path.as_bytes()), is_not_a_call(path.as_bytes())), (Some(format), false), "{path}");
        }
        for (before, last) in NOT_CALLS {
            let path = format!("/v1{before}{last}/?a=/messages");
            assert_eq!((by_path(path.as_bytes()), is_not_a_call(path.as_bytes())), (None, true), "{path}");
        }
        assert!(
            by_path(b"completions").is_none() && by_path(b"/other-completions").is_none() && by_path(b"").is_none()
        );
    }
}
