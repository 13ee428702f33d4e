//! The provider-neutral words that every wire format decodes to.
//!
//! Text is not kept as text: decoding feeds it straight into a fingerprint, so what arrives here is already as small as
//! what the window stores. No serde, no thresholds.

/// The wire formats, as clients and servers know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    Other,
}
