//! Refusals as errors, in the format in which each API reports its own errors.
//!
//! A client library then raises the exception that its user already handles. JSON-RPC errors are sent with HTTP 200,
//! because MCP and A2A clients take any other status for a broken transport, and some of them then wait for ever. If
//! there is no id by which the client could find its request, the HTTP status is the only way to tell it.

use super::template::{fill_line, json_string, members};
use super::{Cause, Delivery, EVENTS, JSON, Refusal, Reply};
use crate::turn::Format;

/// How one API reports errors.
struct ErrorFormat {
    template: &'static str,
    /// The API's names for the statuses 400, 403, 429 and 503.
    types: [&'static str; 4],
}

const OPENAI: ErrorFormat = ErrorFormat {
    template: include_str!("templates/errors/openai.json"),
    types: ["invalid_request_error", "permission_error", "rate_limit_error", "server_error"],
};
const ANTHROPIC: ErrorFormat = ErrorFormat {
    template: include_str!("templates/errors/anthropic.json"),
    types: ["invalid_request_error", "permission_error", "rate_limit_error", "api_error"],
};
const GEMINI: ErrorFormat = ErrorFormat {
    template: include_str!("templates/errors/gemini.json"),
    types: ["INVALID_ARGUMENT", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"],
};
// AWS clients read the type from a header, so the template does not contain it.
const BEDROCK: ErrorFormat = ErrorFormat {
    template: include_str!("templates/errors/message.json"),
    types: ["ValidationException", "AccessDeniedException", "ThrottlingException", "ServiceUnavailableException"],
};
const COHERE: ErrorFormat = ErrorFormat { template: include_str!("templates/errors/message.json"), types: [""; 4] };
const OLLAMA: ErrorFormat = ErrorFormat { template: include_str!("templates/errors/ollama.json"), types: [""; 4] };
const JSON_RPC: ErrorFormat = ErrorFormat { template: include_str!("templates/errors/json_rpc.json"), types: [""; 4] };
const PROBLEM: ErrorFormat = ErrorFormat {
    template: include_str!("templates/errors/problem.json"),
    types: ["Bad Request", "Forbidden", "Too Many Requests", "Service Unavailable"],
};

impl Refusal<'_> {
    /// Returns the refusal as an error.
    pub(super) fn error(&self) -> Reply {
        let format = self.error_format();
        let type_name = self.type_name(&format);
        let body = fill_line(format.template, &self.error_values(type_name));
        let as_json_rpc_error = self.is_json_rpc() && self.matchable_id().is_some();
        let status = if as_json_rpc_error { 200 } else { self.cause.status() };
        let (content_type, body) = match (self.format, self.delivery) {
            (Format::A2a, Delivery::Streamed) if as_json_rpc_error => (EVENTS, format!("data: {body}\n\n")),
            (Format::Gemini, Delivery::JsonArray) => (JSON, format!("[{body}]")),
            (Format::Other, _) => ("application/problem+json", body),
            _ => (JSON, body),
        };
        let mut reply = self.reply_with(status, content_type, body.into_bytes());
        reply.headers.extend(self.error_headers(type_name));
        reply
    }

    fn error_format(&self) -> ErrorFormat {
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

    fn type_name(&self, format: &ErrorFormat) -> &'static str {
        let [bad_request, forbidden, too_many_requests, unavailable] = format.types;
        match self.cause.status() {
            400 => bad_request,
            403 => forbidden,
            429 => too_many_requests,
            _ => unavailable,
        }
    }

    fn error_values(&self, type_name: &str) -> Vec<(&'static str, String)> {
        let facts = self.facts();
        let mut values = self.values();
        values.extend([
            ("status", self.cause.status().to_string()),
            ("type", json_string(type_name)),
            ("reason", json_string(&self.cause.code().to_ascii_uppercase())),
            ("fact_strings", members(&as_strings(&facts))),
            ("facts", members(&facts)),
        ]);
        values
    }

    /// Returns the headers that tell a client whether to retry. Only a missing policy can resolve itself, so that only
    /// then repeating the same call makes sense.
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

/// Converts facts for a map that holds only strings: numbers and flags become strings, and nulls are left out.
fn as_strings(facts: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let known = facts.iter().filter(|(_, json)| json != "null");
    known.map(|(name, json)| (*name, if json.starts_with('"') { json.clone() } else { json_string(json) })).collect()
}
