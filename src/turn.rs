//! The provider-neutral types that every wire format decodes to.
//!
//! Text is not kept: decoding feeds it directly into a fingerprint, so these types are already as small as what the window
//! stores.

use crate::fingerprint::Fingerprint;

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
    /// JSON of an unknown shape, or text. The whole body is the fresh input.
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

/// The answer to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// The answer has not come yet, or could not be read.
    #[default]
    Unknown,
    /// The upstream refused the call or failed.
    Failed,
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
            Self::Unknown | Self::Failed => None,
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

/// What one request brings to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The API that the request speaks.
    pub format: Format,
    /// What is new since the model last spoke.
    pub input: Fingerprint,
    /// The tools that the request is about.
    pub tools: ToolTurn,
    /// The names of these tools, each once. Only reports use them.
    pub tool_names: Vec<String>,
}

/// Why a request cannot be scored. It is forwarded and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// There is no body.
    Empty,
    /// The body begins like JSON and is not valid JSON.
    Malformed,
    /// The request is not a call of a model or a tool: `tools/list` of JSON-RPC, counting tokens, embeddings.
    NotACall,
}
