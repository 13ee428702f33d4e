//! The inactive reply as a completion: 200, the message as the assistant's text, finish reason stop, no usage.
//!
//! For clients that cannot handle an error. Only calls of inactive agents and stopped conversations get a completion: a
//! client could not distinguish a 429 that looks like a success from a real one. Requests that are not calls, and JSON-RPC
//! requests without an id, always get the error, since there is no success that could be sent to them.

use super::event_stream::frame;
use super::template::{fill, fill_line};
use super::{Cause, Delivery, EVENTS, JSON, Refusal, Reply};
use crate::config::InactiveReply;
use crate::turn::Format;

const JSON_LINES: &str = "application/x-ndjson";
const AWS_EVENTS: &str = "application/vnd.amazon.eventstream";

impl Refusal<'_> {
    /// Returns the refusal as a completion, if that is configured and possible.
    pub(super) fn completion(&self) -> Option<Reply> {
        let stopped = matches!(self.cause, Cause::Inactive { .. }) || self.cause.is_stopped_session();
        let wanted = self.style == InactiveReply::Completion && stopped && self.is_call;
        let matchable = !self.is_json_rpc() || self.matchable_id().is_some();
        if !wanted || !matchable {
            return None;
        }
        let (content_type, body) = match self.delivery {
            Delivery::Whole => (JSON, fill_line(self.whole_template()?, &self.values()).into_bytes()),
            Delivery::Streamed | Delivery::JsonArray => self.stream()?,
        };
        Some(self.reply_with(200, content_type, body))
    }

    /// Returns the template of a completion that is not streamed.
    fn whole_template(&self) -> Option<&'static str> {
        Some(match self.format {
            Format::OpenAiChat => include_str!("templates/completions/openai_chat.json"),
            Format::OpenAiCompletions => include_str!("templates/completions/openai_completions.json"),
            Format::OpenAiResponses => include_str!("templates/completions/openai_responses.json"),
            Format::Anthropic => include_str!("templates/completions/anthropic.json"),
            Format::Gemini => include_str!("templates/completions/gemini.json"),
            Format::Bedrock => include_str!("templates/completions/bedrock.json"),
            Format::OllamaChat => include_str!("templates/completions/ollama_chat.json"),
            Format::OllamaGenerate => include_str!("templates/completions/ollama_generate.json"),
            Format::Cohere => include_str!("templates/completions/cohere.json"),
            Format::Mcp => include_str!("templates/completions/mcp.json"),
            Format::A2a => include_str!("templates/completions/a2a.json"),
            Format::Other => return None,
        })
    }

    /// Returns content type and body of a streamed completion.
    fn stream(&self) -> Option<(&'static str, Vec<u8>)> {
        let (content_type, template) = match self.format {
            Format::OpenAiChat => (EVENTS, include_str!("templates/completions/openai_chat.sse")),
            Format::OpenAiCompletions => (EVENTS, include_str!("templates/completions/openai_completions.sse")),
            Format::OpenAiResponses => (EVENTS, include_str!("templates/completions/openai_responses.sse")),
            Format::Anthropic => (EVENTS, include_str!("templates/completions/anthropic.sse")),
            Format::Cohere => (EVENTS, include_str!("templates/completions/cohere.sse")),
            Format::OllamaChat => (JSON_LINES, include_str!("templates/completions/ollama_chat.ndjson")),
            Format::OllamaGenerate => (JSON_LINES, include_str!("templates/completions/ollama_generate.ndjson")),
            Format::Bedrock => return Some((AWS_EVENTS, self.bedrock_frames())),
            Format::Gemini | Format::Mcp | Format::A2a | Format::Other => return self.single_event(),
        };
        Some((content_type, fill(template, &self.values()).into_bytes()))
    }

    /// Returns content type and body for an API in which each event of a stream is a whole completion. MCP clients accept
    /// plain JSON as well, so they get that.
    fn single_event(&self) -> Option<(&'static str, Vec<u8>)> {
        let completion = fill_line(self.whole_template()?, &self.values());
        let (content_type, body) = match (self.format, self.delivery) {
            (Format::Mcp, _) => (JSON, completion),
            (_, Delivery::JsonArray) => (JSON, format!("[{completion}]")),
            _ => (EVENTS, format!("data: {completion}\n\n")),
        };
        Some((content_type, body.into_bytes()))
    }

    /// Returns Bedrock's stream. Each line of its template is the type and the payload of an event.
    fn bedrock_frames(&self) -> Vec<u8> {
        let events = fill(include_str!("templates/completions/bedrock.events"), &self.values());
        let mut frames = Vec::new();
        for (event_type, payload) in events.lines().filter_map(|line| line.split_once(' ')) {
            frames.extend_from_slice(&frame(event_type, payload));
        }
        frames
    }
}
