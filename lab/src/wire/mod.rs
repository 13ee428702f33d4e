//! Answers as the services send them: one format per file, whole and streamed.
//!
//! Written from the services' published references and checked with their official clients (`lab/clients`). Fields that
//! no client needs are included if they change from answer to answer, since those are what a detector must not hash.

mod anthropic;
mod ask;
mod gemini;
mod jsonrpc;
mod ollama;
mod openai_chat;
mod openai_completions;
mod openai_responses;

use serde_json::{Value, json};

pub use ask::Ask;

use crate::answer::Answer;
use crate::format::Format;
use crate::json;

/// The response header that distinguishes the mock's own answers from those of a filter before it: the request's number.
pub const ANSWERED: &str = "x-lab-answered";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";
const NDJSON: &str = "application/x-ndjson";

/// A body in the pieces in which it is sent.
#[derive(Debug)]
pub struct Rendered {
    pub content_type: &'static str,
    /// The body; a single piece if it is not streamed.
    pub pieces: Vec<String>,
}

impl Rendered {
    fn json(value: &Value) -> Rendered {
        Rendered { content_type: JSON, pieces: vec![json::text(value)] }
    }

    fn events(pieces: Vec<String>) -> Rendered {
        Rendered { content_type: EVENTS, pieces }
    }
}

/// Renders an answer as the API that was asked would send it.
pub fn render(ask: &Ask, answer: &Answer) -> Rendered {
    if let Some(raw) = &answer.raw {
        return Rendered { content_type: JSON, pieces: vec![raw.clone()] };
    }
    if answer.is_error() {
        return Rendered::json(&error(ask, answer));
    }
    match (ask.format, ask.stream) {
        (Format::OpenAiChat, false) => Rendered::json(&openai_chat::whole(ask, answer)),
        (Format::OpenAiChat, true) => Rendered::events(openai_chat::events(ask, answer)),
        (Format::OpenAiCompletions, false) => Rendered::json(&openai_completions::whole(ask, answer)),
        (Format::OpenAiCompletions, true) => Rendered::events(openai_completions::events(ask, answer)),
        (Format::OpenAiResponses, false) => Rendered::json(&openai_responses::whole(ask, answer)),
        (Format::OpenAiResponses, true) => Rendered::events(openai_responses::events(ask, answer)),
        (Format::Anthropic, false) => Rendered::json(&anthropic::whole(ask, answer)),
        (Format::Anthropic, true) => Rendered::events(anthropic::events(ask, answer)),
        (Format::Gemini, false) => Rendered::json(&gemini::whole(ask, answer)),
        (Format::Gemini, true) if ask.query.contains("alt=sse") => Rendered::events(gemini::events(ask, answer)),
        (Format::Gemini, true) => Rendered { content_type: JSON, pieces: gemini::array(ask, answer) },
        (Format::OllamaChat | Format::OllamaGenerate, false) => Rendered::json(&ollama::whole(ask, answer)),
        (Format::OllamaChat | Format::OllamaGenerate, true) => {
            Rendered { content_type: NDJSON, pieces: ollama::lines(ask, answer) }
        }
        (Format::Mcp, false) => Rendered::json(&jsonrpc::mcp(ask, answer)),
        (Format::Mcp, true) => Rendered::events(jsonrpc::mcp_events(ask, answer)),
        (Format::A2a, false) => Rendered::json(&jsonrpc::a2a(ask, answer)),
        (Format::A2a, true) => Rendered::events(jsonrpc::a2a_events(ask, answer)),
        (Format::Other, _) => Rendered::json(&json!({"id": crate::fresh::uuid(), "answer": answer.text})),
    }
}

fn error(ask: &Ask, answer: &Answer) -> Value {
    match ask.format {
        Format::OpenAiChat | Format::OpenAiCompletions | Format::OpenAiResponses => openai_chat::error(answer),
        Format::Anthropic => anthropic::error(answer),
        Format::Gemini => gemini::error(answer),
        Format::Mcp | Format::A2a => jsonrpc::error(ask, answer),
        Format::OllamaChat | Format::OllamaGenerate | Format::Other => json!({"error": answer.text}),
    }
}

/// Estimates the tokens of a text. It only has to look plausible in a `usage` field.
fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// Returns the tokens of the request and of the answer.
fn usage(ask: &Ask, answer: &Answer) -> (usize, usize) {
    let calls: usize = answer.tool_calls.iter().map(|call| 8 + tokens(&call.arguments_text())).sum();
    (8 + tokens(&ask.last), 1 + tokens(&answer.text) + calls)
}

/// Cuts a string of JSON in two, as tool arguments are streamed.
fn halves(text: &str) -> [&str; 2] {
    let middle = text.char_indices().map(|(start, _)| start).nth(text.chars().count() / 2).unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second]
}
