//! The provider-neutral types that every wire format decodes to.
//!
//! Text is not kept: decoding feeds it directly into a fingerprint, so these types are already as small as what the window
//! stores.

use crate::fingerprint::{Fingerprint, hash_bytes};

/// The wire formats, as clients and servers know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAI Chat Completions, and the many that speak it.
    OpenAiChat,
    /// OpenAI legacy Completions.
    OpenAiCompletions,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini,
    /// Bedrock Converse and ConverseStream.
    Bedrock,
    /// Ollama `chat`.
    OllamaChat,
    /// Ollama `generate`.
    OllamaGenerate,
    /// Cohere v2 chat.
    Cohere,
    /// MCP: JSON-RPC `tools/call`.
    Mcp,
    /// A2A: JSON-RPC `message/send`.
    A2a,
    /// JSON of an unknown shape, or text. The whole body is the fresh input. Only with `judge_unknown: true`.
    #[default]
    Other,
}

/// Identifies a set of tool calls by their names and arguments. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToolSignature(std::num::NonZeroU64);

impl ToolSignature {
    /// Creates a signature from any hash.
    pub fn new(hash: u64) -> Self {
        Self(std::num::NonZeroU64::new(hash).unwrap_or(std::num::NonZeroU64::MIN))
    }

    /// Returns the signature as a number, or 0 if there is none.
    pub fn code(signature: Option<Self>) -> u64 {
        signature.map_or(0, |signature| signature.0.get())
    }

    /// Creates a signature from that number.
    pub fn from_code(code: u64) -> Option<Self> {
        std::num::NonZeroU64::new(code).map(Self)
    }
}

/// One tool call that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolHash {
    /// The hash of the tool's name.
    pub name: u64,
    /// The hash of its name and arguments.
    pub call: u64,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// The answer has not come yet, or could not be read.
    #[default]
    Unknown,
    /// The call failed for a reason that has nothing to do with the request: the provider, the network, a rate limit or
    /// missing permission. It was an attempt, not a call.
    Failed,
    /// The upstream refused the request as wrong, with this status.
    Rejected(u16),
    /// The client did not wait for the answer.
    Abandoned,
    /// The model answered with text.
    Text(Fingerprint),
    /// The model called tools, with or without text beside the calls.
    Tools {
        /// The text beside the calls.
        text: Option<Fingerprint>,
        /// The tool calls.
        signature: ToolSignature,
    },
}

impl Answer {
    /// Returns the text of the answer.
    pub fn text(&self) -> Option<Fingerprint> {
        match self {
            Self::Text(text) => Some(*text),
            Self::Tools { text, .. } => *text,
            Self::Unknown | Self::Failed | Self::Rejected(_) | Self::Abandoned => None,
        }
    }

    /// Returns the answer to a call that ended with this status, if it is not a success.
    ///
    /// A request that is wrong stays wrong, so sending it again unchanged gets the agent nowhere. Every other failure may
    /// be gone on the next attempt.
    pub fn of_failed_status(status: u16) -> Option<Self> {
        match status {
            200..300 => None,
            400 | 404 | 409 | 413 | 415 | 422 => Some(Self::Rejected(status)),
            _ => Some(Self::Failed),
        }
    }

    /// Returns the tool calls of the answer.
    pub fn tools(&self) -> Option<ToolSignature> {
        match self {
            Self::Tools { signature, .. } => Some(*signature),
            _ => None,
        }
    }
}

/// What a request says about tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolTurn {
    /// It says nothing about tools.
    #[default]
    None,
    /// It brings the results of these calls.
    Results(ToolSignature),
    /// It is this tool call, and its answer will be the result (MCP).
    Call(ToolSignature),
}

impl ToolTurn {
    /// Returns the tool calls that the request is about.
    pub fn signature(&self) -> Option<ToolSignature> {
        match self {
            Self::None => None,
            Self::Results(signature) | Self::Call(signature) => Some(*signature),
        }
    }
}

/// The conversation that a request belongs to.
///
/// A conversation is known by a hash of its id or of its first user message, which is never 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// The request carries an id of its conversation.
    Identified {
        /// The hash of the id.
        key: u64,
        /// The id, shortened if it is long.
        id: String,
    },
    /// The request carries a history, and the conversation is known by how it began.
    Continued {
        /// The hash of the first user message.
        key: u64,
    },
    /// The request begins a conversation, or nothing tells which one it belongs to. These calls of an agent share one
    /// window.
    New {
        /// The key that the conversation will have if it goes on, or 0.
        opening: u64,
    },
}

impl Default for Conversation {
    fn default() -> Self {
        Self::New { opening: 0 }
    }
}

impl Conversation {
    /// Creates the conversation that has an id.
    pub fn identified(id: &[u8]) -> Self {
        const MAX_CHARS: usize = 128;
        let shown = String::from_utf8_lossy(id);
        let shown = shown.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).take(MAX_CHARS).collect();
        Self::Identified { key: conversation_key(id), id: shown }
    }

    /// Returns the key of the conversation, unless the call belongs to the window that all others share.
    pub fn key(&self) -> Option<u64> {
        match self {
            Self::Identified { key, .. } | Self::Continued { key } => Some(*key),
            Self::New { .. } => None,
        }
    }

    /// Returns the key by which later calls of the same conversation find this one, or 0.
    pub fn tag(&self) -> u64 {
        match self {
            Self::Identified { key, .. } | Self::Continued { key } => *key,
            Self::New { opening } => *opening,
        }
    }
}

/// Returns the key of a conversation that has this id or begins with this text.
pub fn conversation_key(text: &[u8]) -> u64 {
    hash_bytes(text).max(1)
}

/// What one request brings to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The API that the request speaks.
    pub format: Format,
    /// The conversation that the request belongs to.
    pub conversation: Conversation,
    /// What is new since the model last spoke.
    pub input: Fingerprint,
    /// The tools that the request is about.
    pub tools: ToolTurn,
    /// The action that the model wrote into its last answer, if the request brings no results of real tool calls.
    pub action: Option<ToolSignature>,
    /// The calls of these tools.
    pub tool_hashes: Vec<ToolHash>,
    /// The names of these tools, each once. Only reports use them, and they leave out what would be too long.
    pub tool_names: Vec<String>,
    /// Whether the body has several requests, each of which gets a response of its own (JSON-RPC).
    pub is_batch: bool,
}

/// Why a request cannot be scored. It is forwarded and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// There is no body.
    Empty,
    /// The body begins like JSON and is not valid JSON.
    Malformed,
    /// The request is not a call of a model or a tool that is known: `tools/list` of JSON-RPC, embeddings, telemetry.
    NotACall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_that_stays_wrong_is_rejected() {
        for status in [200, 201, 204, 299] {
            assert_eq!(Answer::of_failed_status(status), None, "{status}");
        }
        for status in [400, 404, 409, 413, 415, 422] {
            assert_eq!(Answer::of_failed_status(status), Some(Answer::Rejected(status)), "{status}");
        }
        for status in [0, 302, 401, 402, 403, 408, 425, 429, 499, 500, 502, 503, 504, 529] {
            assert_eq!(Answer::of_failed_status(status), Some(Answer::Failed), "{status}");
        }
    }
}
