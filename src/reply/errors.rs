//! Refusals as errors, in the shape in which each API reports its own.
//!
//! A client library then raises the exception that its user already handles. JSON-RPC is the exception: its errors
//! travel under HTTP 200, since MCP and A2A clients take any other status for a broken transport, and some of them wait
//! for ever. Without an id that the client could match, the HTTP status is all that is left, and it is used.

use super::shape::{fill_line, members, text};
use super::{Answer, Cause, Delivery, EVENTS, JSON, Refusal};
use crate::turn::Format;

/// How one API reports errors.
struct Shape {
    body: &'static str,
    /// What the API calls the statuses 400, 403, 429 and 503.
    types: [&'static str; 4],
}

const OPENAI: Shape = Shape {
    body: include_str!("shapes/errors/openai.json"),
    types: ["invalid_request_error", "permission_error", "rate_limit_error", "server_error"],
};
const ANTHROPIC: Shape = Shape {
    body: include_str!("shapes/errors/anthropic.json"),
    types: ["invalid_request_error", "permission_error", "rate_limit_error", "api_error"],
};
const GEMINI: Shape = Shape {
    body: include_str!("shapes/errors/gemini.json"),
    types: ["INVALID_ARGUMENT", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"],
};
// AWS clients read the type from a header.
const BEDROCK: Shape = Shape {
    body: include_str!("shapes/errors/message.json"),
    types: ["ValidationException", "AccessDeniedException", "ThrottlingException", "ServiceUnavailableException"],
};
const COHERE: Shape = Shape { body: include_str!("shapes/errors/message.json"), types: [""; 4] };
const OLLAMA: Shape = Shape { body: include_str!("shapes/errors/ollama.json"), types: [""; 4] };
const JSON_RPC: Shape = Shape { body: include_str!("shapes/errors/json_rpc.json"), types: [""; 4] };
const PROBLEM: Shape = Shape {
    body: include_str!("shapes/errors/problem.json"),
    types: ["Bad Request", "Forbidden", "Too Many Requests", "Service Unavailable"],
};

impl Refusal<'_> {
    /// The refusal as an error.
    pub(super) fn error(&self) -> Answer {
        let shape = self.shape();
        let type_name = self.type_name(&shape);
        let body = fill_line(shape.body, &self.error_values(type_name));
        let answered_in_band = self.is_json_rpc() && self.matchable_id().is_some();
        let status = if answered_in_band { 200 } else { self.cause.status() };
        let (content_type, body) = match (self.format, self.delivery) {
            (Format::A2a, Delivery::Streamed) if answered_in_band => (EVENTS, format!("data: {body}\n\n")),
            (Format::Gemini, Delivery::JsonArray) => (JSON, format!("[{body}]")),
            (Format::Other, _) => ("application/problem+json", body),
            _ => (JSON, body),
        };
        Answer { status, content_type, headers: self.error_headers(type_name), body: body.into_bytes() }
    }

    fn shape(&self) -> Shape {
        match self.format {
            Format::OpenAiChat | Format::OpenAiCompletions | Format::OpenAiResponses => OPENAI,
            Format::Anthropic => ANTHROPIC,
            Format::Gemini => GEMINI,
            Format::Bedrock => BEDROCK,
            Format::OllamaChat | Format::OllamaGenerate => OLLAMA,
            Format::Cohere => COHERE,
            Format::Mcp | Format::A2a => JSON_RPC,
            Format::Other => PROBLEM,
        }
    }

    fn type_name(&self, shape: &Shape) -> &'static str {
        let [bad_request, forbidden, too_many_requests, unavailable] = shape.types;
        match self.cause {
            Cause::MissingAgent | Cause::BadAgentId => bad_request,
            Cause::Inactive { .. } => forbidden,
            Cause::Blocked { .. } => too_many_requests,
            Cause::NoPolicy => unavailable,
        }
    }

    fn error_values(&self, type_name: &str) -> Vec<(&'static str, String)> {
        let facts = self.facts();
        let mut values = self.values();
        values.extend([
            ("status", self.cause.status().to_string()),
            ("type", text(type_name)),
            ("reason", text(&self.cause.code().to_ascii_uppercase())),
            ("texts", members(&as_texts(&facts))),
            ("facts", members(&facts)),
        ]);
        values
    }

    /// Headers that clients act on. Only "no policy yet" is worth repeating without a person or a change of plan.
    fn error_headers(&self, type_name: &str) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if self.cause != Cause::NoPolicy {
            headers.push(("x-should-retry", "false".to_owned()));
        }
        if let Some(seconds) = self.cause.retry_after_seconds() {
            headers.push(("retry-after", seconds.to_string()));
        }
        if self.format == Format::Bedrock {
            headers.push(("x-amzn-errortype", type_name.to_owned()));
        }
        headers
    }
}

/// Facts for a map that holds text only: numbers and flags in quotes, what is null left out.
fn as_texts(facts: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let known = facts.iter().filter(|(_, json)| json != "null");
    known.map(|(name, json)| (*name, if json.starts_with('"') { json.clone() } else { text(json) })).collect()
}
