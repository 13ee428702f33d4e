//! The inactive reply as a completion: 200, the message as the assistant's text, finish reason stop, no usage.
//!
//! For clients that cannot take an error. Only an inactive agent is answered so: a 429 that came as a success could not
//! be told from one. Nothing can be made up for a request of no known API, nor for a JSON-RPC request without an id:
//! those get the error.

use super::event_stream::frame;
use super::shape::{fill, fill_line};
use super::{Answer, Cause, Delivery, EVENTS, JSON, Refusal};
use crate::config::InactiveReply;
use crate::turn::Format;

const LINES: &str = "application/x-ndjson";
const AWS_EVENTS: &str = "application/vnd.amazon.eventstream";

impl Refusal<'_> {
    /// The refusal as a completion, where that is asked for and possible.
    pub(super) fn completion(&self) -> Option<Answer> {
        let wanted = self.style == InactiveReply::Completion && matches!(self.cause, Cause::Inactive { .. });
        let matchable = !self.is_json_rpc() || self.matchable_id().is_some();
        if !wanted || !matchable {
            return None;
        }
        let (content_type, body) = match self.delivery {
            Delivery::Whole => (JSON, fill_line(self.whole()?, &self.values()).into_bytes()),
            Delivery::Streamed | Delivery::JsonArray => self.stream()?,
        };
        Some(Answer { status: 200, content_type, headers: Vec::new(), body })
    }

    /// The shape of an answer in one piece.
    fn whole(&self) -> Option<&'static str> {
        Some(match self.format {
            Format::OpenAiChat => include_str!("shapes/completions/openai_chat.json"),
            Format::OpenAiCompletions => include_str!("shapes/completions/openai_completions.json"),
            Format::OpenAiResponses => include_str!("shapes/completions/openai_responses.json"),
            Format::Anthropic => include_str!("shapes/completions/anthropic.json"),
            Format::Gemini => include_str!("shapes/completions/gemini.json"),
            Format::Bedrock => include_str!("shapes/completions/bedrock.json"),
            Format::OllamaChat => include_str!("shapes/completions/ollama_chat.json"),
            Format::OllamaGenerate => include_str!("shapes/completions/ollama_generate.json"),
            Format::Cohere => include_str!("shapes/completions/cohere.json"),
            Format::Mcp => include_str!("shapes/completions/mcp.json"),
            Format::A2a => include_str!("shapes/completions/a2a.json"),
            Format::Other => return None,
        })
    }

    /// The answer as a stream, with its content type.
    fn stream(&self) -> Option<(&'static str, Vec<u8>)> {
        let (content_type, shape) = match self.format {
            Format::OpenAiChat => (EVENTS, include_str!("shapes/completions/openai_chat.sse")),
            Format::OpenAiCompletions => (EVENTS, include_str!("shapes/completions/openai_completions.sse")),
            Format::OpenAiResponses => (EVENTS, include_str!("shapes/completions/openai_responses.sse")),
            Format::Anthropic => (EVENTS, include_str!("shapes/completions/anthropic.sse")),
            Format::Cohere => (EVENTS, include_str!("shapes/completions/cohere.sse")),
            Format::OllamaChat => (LINES, include_str!("shapes/completions/ollama_chat.ndjson")),
            Format::OllamaGenerate => (LINES, include_str!("shapes/completions/ollama_generate.ndjson")),
            Format::Bedrock => return Some((AWS_EVENTS, self.frames())),
            Format::Gemini | Format::Mcp | Format::A2a | Format::Other => return self.stream_of_one(),
        };
        Some((content_type, fill(shape, &self.values()).into_bytes()))
    }

    /// The stream of an API whose events are whole answers. An MCP client takes either, so it gets the plainer one.
    fn stream_of_one(&self) -> Option<(&'static str, Vec<u8>)> {
        let answer = fill_line(self.whole()?, &self.values());
        let (content_type, body) = match (self.format, self.delivery) {
            (Format::Mcp, _) => (JSON, answer),
            (_, Delivery::JsonArray) => (JSON, format!("[{answer}]")),
            _ => (EVENTS, format!("data: {answer}\n\n")),
        };
        Some((content_type, body.into_bytes()))
    }

    /// Bedrock's stream: each line of its shape is an event's type and payload.
    fn frames(&self) -> Vec<u8> {
        let events = fill(include_str!("shapes/completions/bedrock.events"), &self.values());
        let mut frames = Vec::new();
        for (event_type, payload) in events.lines().filter_map(|line| line.split_once(' ')) {
            frames.extend_from_slice(&frame(event_type, payload));
        }
        frames
    }
}
