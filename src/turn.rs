//! The provider-neutral words that every wire format decodes to.
//!
//! Text is not kept as text: decoding feeds it straight into a fingerprint, so what arrives here is already as small as
//! what the window stores. No serde, no thresholds.

use crate::decode::json::Malformed;
use crate::detect::fingerprint::Fingerprint;
use crate::detect::window::ToolTurn;

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

/// What one request brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The API it speaks.
    pub format: Format,
    /// What is new since the model last spoke.
    pub input: Fingerprint,
    /// The tools it is about.
    pub tools: ToolTurn,
    /// Their names, for people.
    pub tool_names: String,
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

impl From<Malformed> for Unreadable {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}
