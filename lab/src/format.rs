//! The wire formats that the laboratory speaks.

use std::fmt;
use std::str::FromStr;

/// The wire format of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAI Chat Completions: `/v1/chat/completions`.
    OpenAiChat,
    /// OpenAI legacy Completions: `/v1/completions`.
    OpenAiCompletions,
    /// OpenAI Responses: `/v1/responses`.
    OpenAiResponses,
    /// Anthropic Messages: `/v1/messages`.
    Anthropic,
    /// Gemini: `/v1beta/models/{model}:generateContent` and `:streamGenerateContent`.
    Gemini,
    /// Ollama: `/api/chat`.
    OllamaChat,
    /// Ollama: `/api/generate`.
    OllamaGenerate,
    /// MCP over HTTP: JSON-RPC, mainly `tools/call`.
    Mcp,
    /// A2A: JSON-RPC, `message/send` and `message/stream`.
    A2a,
    /// Anything else.
    Other,
}

impl Format {
    /// The four that [`crate::chat`] can hold a conversation in.
    pub const CHATS: [Format; 4] = [Format::OpenAiChat, Format::Anthropic, Format::Gemini, Format::OllamaChat];

    /// Returns the short name used on command lines and in names of scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Format::OpenAiChat => "openai",
            Format::OpenAiCompletions => "openai-completions",
            Format::OpenAiResponses => "openai-responses",
            Format::Anthropic => "anthropic",
            Format::Gemini => "gemini",
            Format::OllamaChat => "ollama",
            Format::OllamaGenerate => "ollama-generate",
            Format::Mcp => "mcp",
            Format::A2a => "a2a",
            Format::Other => "other",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::CHATS
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("format ({name}) must be one of {}", Format::CHATS.map(Format::name).join(", ")))
    }
}
