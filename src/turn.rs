//! The provider-neutral words that every wire format decodes to.
//!
//! Text is not kept as text: decoding feeds it straight into a fingerprint, so what arrives here is already as small as
//! what the window stores. No serde, no thresholds.

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
    /// JSON of no known shape, or text: the whole body is the fresh input.
    #[default]
    Other,
}

/// Identifies a set of tool calls by name and arguments; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToolSignature(std::num::NonZeroU64);

impl ToolSignature {
    /// From any hash.
    pub fn new(hash: u64) -> Self {
        Self(std::num::NonZeroU64::new(hash).unwrap_or(std::num::NonZeroU64::MIN))
    }

    /// As a number; 0 for none.
    pub fn code(signature: Option<Self>) -> u64 {
        signature.map_or(0, |signature| signature.0.get())
    }

    /// From that number.
    pub fn from_code(code: u64) -> Option<Self> {
        std::num::NonZeroU64::new(code).map(Self)
    }
}

/// What came back for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet, or nothing that could be read.
    #[default]
    Unknown,
    /// The upstream refused or failed.
    Failed,
    /// The model spoke.
    Text(Fingerprint),
    /// The model called tools, with or without words beside it.
    Tools {
        /// The words beside the calls.
        text: Option<Fingerprint>,
        /// The calls.
        signature: ToolSignature,
    },
}

impl Answer {
    /// The words of the answer, whatever came with them.
    pub fn text(&self) -> Option<Fingerprint> {
        match self {
            Self::Text(text) => Some(*text),
            Self::Tools { text, .. } => *text,
            Self::Unknown | Self::Failed => None,
        }
    }

    /// The tool calls of the answer.
    pub fn tools(&self) -> Option<ToolSignature> {
        match self {
            Self::Tools { signature, .. } => Some(*signature),
            _ => None,
        }
    }
}

/// What the request itself says about tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolTurn {
    /// Nothing.
    #[default]
    None,
    /// It brings the results of these calls.
    Results(ToolSignature),
    /// It is this call, and its answer will be the result (MCP).
    Call(ToolSignature),
}

impl ToolTurn {
    /// The calls meant.
    pub fn signature(&self) -> Option<ToolSignature> {
        match self {
            Self::None => None,
            Self::Results(signature) | Self::Call(signature) => Some(*signature),
        }
    }
}

/// What one request brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The API it speaks.
    pub format: Format,
    /// What is new since the model last spoke.
    pub input: Fingerprint,
    /// The tools it is about.
    pub tools: ToolTurn,
    /// The names of these tools, each once. Only reports use them.
    pub tool_names: Vec<String>,
}

/// Why a request says nothing that could be judged. It is forwarded, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// There is no body.
    Empty,
    /// The body begins like JSON and is not.
    Malformed,
    /// It asks nothing of a model or a tool: `tools/list` of JSON-RPC, counting tokens, embeddings.
    NotACall,
}
