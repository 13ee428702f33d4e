//! Decides which API a request speaks, by its path and by the shape of its body.
//!
//! Only the end of a path is compared, since gateways put prefixes before it. If the path is unknown, the body must be a
//! conversation. A request that is neither is not a call: an upload, a token, telemetry, an embedding.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::json::{Json, RawStr};
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
    /// Reads the members in one pass over the body, and calls `each` with all of them.
    pub fn read(root: Json<'a>, each: &mut dyn FnMut(RawStr<'a>, Json<'a>)) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        for member in root.members() {
            let (name, value) = member?;
            each(name, value);
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
        self.is_method("message/stream")
    }

    /// Returns whether this is a JSON-RPC request of this method.
    fn is_method(&self, name: &str) -> bool {
        self.json_rpc && self.method.and_then(Json::string).is_some_and(|method| method.is(name))
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
    /// Returns whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        let (Self::Messages(value) | Self::Prompt(value)) = self;
        value.is_null()
            || value.string().is_some_and(|text| text.is(""))
            || (value.is_array() && value.elements().next().is_none())
    }
}

/// Decides the format: the one of the path, if the body has an input, else by the shape of the body.
pub fn choose(of_path: Option<Format>, fields: &Fields<'_>) -> Format {
    match of_path {
        Some(format) if fields.request_input().is_some() => format,
        _ if fields.is_method("tools/call") => Format::Mcp,
        _ if A2A_METHODS.iter().any(|name| fields.is_method(name)) => Format::A2a,
        _ if fields.json_rpc => Format::Other,
        _ => by_shape(fields),
    }
}

/// The methods by which A2A sends a message to an agent, in all of its versions.
const A2A_METHODS: [&str; 6] =
    ["message/send", "message/stream", "tasks/send", "tasks/sendSubscribe", "SendMessage", "SendStreamingMessage"];

/// Returns whether the path is known not to be that of a call, even if the body looks like one: it counts, embeds or checks
/// a text, or stores messages. Clients often do that right before they send the text to a model, and would seem to send
/// everything twice.
pub fn is_not_a_call(path: &[u8]) -> bool {
    by_known_path(path) == Some(None)
}

/// Returns the format of a path, if it is that of a call.
pub fn by_path(path: &[u8]) -> Option<Format> {
    by_known_path(path).flatten()
}

/// Returns the format of a path that is known to be that of a call, and `Some(None)` if it is known not to be one.
fn by_known_path(path: &[u8]) -> Option<Option<Format>> {
    by_usual_path(path).map(Some).or_else(|| by_end_of_path(path))
}

/// Returns the format of one of the most common paths, without looking for a query.
#[inline(always)]
fn by_usual_path(path: &[u8]) -> Option<Format> {
    match path {
        b"/v1/chat/completions" => Some(Format::OpenAiChat),
        b"/v1/responses" => Some(Format::OpenAiResponses),
        b"/v1/messages" => Some(Format::Anthropic),
        _ => None,
    }
}

#[inline(never)] // the common paths do not need it
fn by_end_of_path(path: &[u8]) -> Option<Option<Format>> {
    let path = segments(path);
    let path = Ending::of(&path);
    ENDS.iter().find(|(before, last, _)| path.is(before, last)).map(|(_, _, format)| *format)
}

/// The ends of known paths: those of calls with their formats, and those that are not calls. The first one that matches
/// counts.
const ENDS: [(&str, &str, Option<Format>); 30] = [
    ("/chat", "/completions", Some(Format::OpenAiChat)),
    ("", "/completions", Some(Format::OpenAiCompletions)),
    ("", "/responses", Some(Format::OpenAiResponses)),
    ("", "/messages", Some(Format::Anthropic)),
    ("", ":generateContent", Some(Format::Gemini)),
    ("", ":streamGenerateContent", Some(Format::Gemini)),
    ("", "/converse", Some(Format::Bedrock)),
    ("", "/converse-stream", Some(Format::Bedrock)),
    ("/api", "/chat", Some(Format::OllamaChat)),
    ("/api", "/generate", Some(Format::OllamaGenerate)),
    ("/v2", "/chat", Some(Format::Cohere)),
    ("", "/count_tokens", None),
    ("", "/count-tokens", None),
    ("", ":countTokens", None),
    ("/count-tokens", ":rawPredict", None),
    ("", ":computeTokens", None),
    ("", "/input_tokens", None),
    ("", "/token_counter", None),
    ("", "/tokenize", None),
    ("", "/apply-template", None),
    ("", "/moderations", None),
    ("", "/embeddings", None),
    ("", "/embed", None),
    ("", ":embedContent", None),
    ("", ":batchEmbedContents", None),
    ("", "/rerank", None),
    ("", "/cachedContents", None),
    ("", "/threads", None),
    ("", "/batches", None),
    ("/responses", "/compact", None),
];

/// Parts of paths by which a provider is recognised where nothing is asked of a model, and a format that has the errors of
/// that provider.
const PROVIDERS: [(&str, Format); 30] = [
    ("/messages/", Format::Anthropic),
    ("/v1beta/", Format::Gemini),
    ("/publishers/", Format::Gemini),
    (":countTokens", Format::Gemini),
    (":embedContent", Format::Gemini),
    (":batchEmbedContents", Format::Gemini),
    ("/model/", Format::Bedrock),
    ("/api/v1/", Format::OpenAiChat),
    ("/api/", Format::OllamaChat),
    ("/v2/", Format::Cohere),
    ("/rerank", Format::Cohere),
    ("/chat/", Format::OpenAiChat),
    ("/responses/", Format::OpenAiChat),
    ("/embeddings", Format::OpenAiChat),
    ("/batches", Format::OpenAiChat),
    ("/files", Format::OpenAiChat),
    ("/uploads", Format::OpenAiChat),
    ("/vector_stores", Format::OpenAiChat),
    ("/threads", Format::OpenAiChat),
    ("/assistants", Format::OpenAiChat),
    ("/conversations", Format::OpenAiChat),
    ("/realtime", Format::OpenAiChat),
    ("/audio/", Format::OpenAiChat),
    ("/images/", Format::OpenAiChat),
    ("/moderations", Format::OpenAiChat),
    ("/fine_tuning/", Format::OpenAiChat),
    ("/videos", Format::OpenAiChat),
    ("/evals", Format::OpenAiChat),
    ("/containers", Format::OpenAiChat),
    ("/models", Format::OpenAiChat),
];

/// Returns a format with the errors that a client at this path understands, if the path is that of a known provider.
pub fn errors_by_path(path: &str) -> Option<Format> {
    let segments = segments(path.as_bytes());
    let resource = std::str::from_utf8(&segments).unwrap_or_default();
    let of_provider = || PROVIDERS.iter().find(|(part, _)| resource.contains(part)).map(|(_, format)| *format);
    by_path(path.as_bytes()).or_else(of_provider)
}

/// Returns whether the path belongs to something that a provider stores, such as a file.
pub fn is_stored_by_provider(path: &str) -> bool {
    // Servers of MCP may have such paths as well.
    const GENERAL: [&str; 3] = ["/api/v1/", "/api/", "/v2/"];
    let segments = segments(path.as_bytes());
    let resource = std::str::from_utf8(&segments).unwrap_or_default();
    PROVIDERS.iter().any(|(part, _)| !GENERAL.contains(part) && resource.contains(part))
}

/// The end of a path: the last segment with the slash or colon before it, and what is before that. Most segments differ in
/// length, which makes comparing them cheap.
struct Ending<'a> {
    before: &'a [u8],
    last: &'a [u8],
}

impl<'a> Ending<'a> {
    #[inline(always)]
    fn of(path: &'a [u8]) -> Self {
        let start = path.iter().rposition(|byte| matches!(byte, b'/' | b':')).unwrap_or_default();
        let (before, last) = path.split_at_checked(start).unwrap_or_default();
        Self { before, last }
    }

    /// Whether the path ends with these segments. Some upstreams do not care about upper and lower case.
    #[inline(always)]
    fn is(&self, before: &str, last: &str) -> bool {
        let ends_with = |end: &str| {
            let start = self.before.len().checked_sub(end.len());
            start
                .and_then(|start| self.before.get(start..))
                .is_some_and(|end_of| end_of.eq_ignore_ascii_case(end.as_bytes()))
        };
        self.last.eq_ignore_ascii_case(last.as_bytes()) && ends_with(before)
    }
}

/// Returns the segments of a path, without what upstreams ignore: its query and fragment, the parameters of segments, empty
/// segments and dots.
#[inline(always)]
fn segments(path: &[u8]) -> Cow<'_, [u8]> {
    // Most paths consist of segments only.
    let is_special = |byte: &u8| matches!(byte, b'?' | b'#' | b'%' | b';');
    let is_ignored = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    let is_plain = !path.iter().any(is_special) && !path.windows(2).any(is_ignored) && !path.ends_with(b"/");
    if is_plain { path.into() } else { only_segments(path).into() }
}

#[inline(never)]
fn only_segments(path: &[u8]) -> Vec<u8> {
    // Upstreams remove escapes, and some of them take an escaped number sign for the start of a fragment.
    let unescaped: Cow<'_, [u8]> = percent_decode(until(path, b"?#")).into();
    let mut kept = Vec::with_capacity(path.len());
    for segment in until(&unescaped, b"?#").split(|byte| *byte == b'/') {
        match until(segment, b";") {
            b"" | b"." => {}
            b".." => kept.truncate(kept.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            segment => {
                kept.push(b'/');
                kept.extend_from_slice(segment);
            }
        }
    }
    kept
}

/// Returns what is before the first of these bytes.
fn until<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    text.split(|byte| ends.contains(byte)).next().unwrap_or_default()
}

/// Decides the format of a request with an unknown path. Only conversations are told by their shape: a `prompt` or an
/// `input` text may be anything, such as a picture to paint or a text to embed.
fn by_shape(fields: &Fields<'_>) -> Format {
    let is_conversation = |list: Option<Json<'_>>, member| list.is_some_and(|list| has_messages(list, member));
    if is_conversation(fields.messages, "role") {
        match fields.anthropic {
            _ if fields.messages.is_some_and(has_untyped_blocks) => Format::Bedrock,
            true => Format::Anthropic,
            false => Format::OpenAiChat,
        }
    } else if is_conversation(fields.contents, "parts") {
        Format::Gemini
    } else if is_conversation(fields.input, "role") || is_conversation(fields.input, "call_id") {
        Format::OpenAiResponses
    } else {
        Format::Other
    }
}

/// Returns whether a list ends with an object that has this member.
fn has_messages(list: Json<'_>, member: &str) -> bool {
    last_of(list).is_some_and(|last| matches!(last.get(member), Ok(Some(_))))
}

/// Returns whether the last message has blocks without a type. Only Bedrock's messages have them, also in the requests of
/// Amazon's own models.
fn has_untyped_blocks(messages: Json<'_>) -> bool {
    let content = last_of(messages).and_then(|last| last.get("content").ok().flatten());
    content.and_then(last_of).is_some_and(|block| block.is_object() && matches!(block.get("type"), Ok(None)))
}

fn last_of(list: Json<'_>) -> Option<Json<'_>> {
    list.elements_back().next().and_then(Result::ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_provider_is_told_by_its_path_where_nothing_is_asked() {
        for (path, format) in [
            ("/v1/embeddings", Some(Format::OpenAiChat)),
            ("/v1/vector_stores/vs_1/files?limit=2", Some(Format::OpenAiChat)),
            ("/openai/v1/models", Some(Format::OpenAiChat)),
            ("/v1/messages/batches", Some(Format::Anthropic)),
            ("/v1/messages", Some(Format::Anthropic)),
            ("/v1beta/models/gemini-pro:countTokens", Some(Format::Gemini)),
            ("/model/titan/invoke", Some(Format::Bedrock)),
            ("/api/embed", Some(Format::OllamaChat)),
            ("/api/v1/embeddings", Some(Format::OpenAiChat)),
            ("/v1/videos", Some(Format::OpenAiChat)),
            ("/v1/evals/e1/runs", Some(Format::OpenAiChat)),
            ("/v1/containers", Some(Format::OpenAiChat)),
            ("/v2/embed", Some(Format::Cohere)),
            ("/v1/messages;a=b/batches;c", Some(Format::Anthropic)),
            ("/orders?next=/v1/models", None),
            ("/orders#/v1/models", None),
            ("/graphql", None),
        ] {
            assert_eq!(errors_by_path(path), format, "{path}");
        }
    }

    #[test]
    fn every_known_path_is_either_a_call_or_not() {
        for (before, last, format) in ENDS {
            for path in [format!("/v1{before}{last}"), format!("/v1{before}{last}/?a=/other")] {
                let known = (by_path(path.as_bytes()), is_not_a_call(path.as_bytes()));
                assert_eq!(known, (format, format.is_none()), "{path}");
            }
        }
        for path in ["/v1/messages;v=1", "/v1/messages%23x", "/v1/messages#x", "/v1/messages//", "/v1/messages/;a=b?c"]
            .into_iter()
            .chain(["/v1/messages;v=1/", "/v1;a/messages;b=c;d//", "/v1/messages;a/;b/?c", ";/v1/messages;%23;/x"])
        {
            assert_eq!(by_path(path.as_bytes()), Some(Format::Anthropic), "{path}");
        }
        for path in ["//v1//messages", "/v1/./messages/.", "/v1/files/../messages", "/v1/message%73", "/v1%2fmessages"]
            .into_iter()
            .chain(["/V1/Messages", "/v1/messages%3Fa=b", "/%76%31/messages/%2e", "/v1/messages%3ba/"])
        {
            assert_eq!(by_path(path.as_bytes()), Some(Format::Anthropic), "{path}");
        }
        assert!(is_not_a_call(b"/v1/messages/count%5ftokens") && is_not_a_call(b"/V1//Embeddings/"));
        assert_eq!(by_path(b"/v1/messages/../files"), None);
        assert_eq!(by_path(b"/api;x=1/generate;y/"), Some(Format::OllamaGenerate));
        assert!(is_not_a_call(b"/v1/messages;a/count_tokens;b/"));
        assert_eq!(
            by_path(b"/model/arn%3Aaws%3Am/converse"),
            Some(Format::Bedrock),
            "an escape in the name of a model"
        );
        assert!(
            by_path(b"completions").is_none() && by_path(b"/other-completions").is_none() && by_path(b"").is_none()
        );
    }
}
