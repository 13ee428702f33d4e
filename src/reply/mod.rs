//! Refusals: what a client is told instead of being forwarded, in the format that it speaks itself.
//!
//! Pure: a `Refusal` in, status, headers and body out; sending is the host's work. What is said stands in `words`, once
//! for every format; how each API wraps it stands in `shapes/`, as it goes over the wire. Shapes are templates rather
//! than values built in code: a reader can compare them with an API's documentation line by line, and they cost the
//! module next to nothing. The reasons for statuses and headers: docs/configuration.md, "What a refused client sees".
//!
//! gRPC is left to Envoy, which turns the status into a grpc-status.

mod completions;
mod date;
mod errors;
mod event_stream;
mod shape;
mod words;

#[cfg(test)]
mod tests;

use crate::config::InactiveReply;
use crate::decode::envelope::Delivery;
use crate::decode::json::Json;
use crate::number::Decimal;
use crate::scan::unescape::unescape;
use crate::turn::Format;
use crate::wire::DeactivatedBy;

/// A request that is not forwarded, and all that its answer depends on.
#[derive(Clone, Debug)]
pub struct Refusal<'a> {
    /// The API that the client speaks.
    pub format: Format,
    /// How the client expects the answer.
    pub delivery: Delivery,
    /// The request's JSON-RPC id, as the JSON text that it was given as. None: unknown, or a notification.
    pub json_rpc_id: Option<&'a str>,
    /// The model asked for, where known.
    pub model: Option<&'a str>,
    /// The agent, or what was given in place of an id.
    pub agent_id: Option<&'a str>,
    /// Why it is refused.
    pub cause: Cause,
    /// What an inactive agent is answered with.
    pub style: InactiveReply,
    /// Where a person can see the agent and activate it.
    pub dashboard_url: Option<&'a str>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The agent is switched off.
    Inactive {
        /// By whom, where known.
        by: Option<DeactivatedBy>,
    },
    /// A loop was detected, and `action: block` is in force.
    Blocked {
        /// How long requests are still refused.
        retry_after_seconds: u32,
    },
    /// No policy has arrived yet, and `on_no_policy: deny` is in force.
    NoPolicy,
    /// No agent id, and `require_agent: true` is in force.
    MissingAgent,
    /// Something that is no agent id, and `require_agent: true` is in force.
    BadAgentId,
}

/// An answer to be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body. Bytes, since Bedrock streams binary frames; everything else is UTF-8.
    pub body: Vec<u8>,
    /// The reason for `%RESPONSE_CODE_DETAILS%`: one lower-case word, the same as the body's code.
    pub details: &'static str,
}

impl Refusal<'_> {
    /// The answer to the client.
    pub fn reply(&self) -> Reply {
        let reason = self.cause.code();
        let answer = self.completion().unwrap_or_else(|| self.error());
        let mut headers = vec![("content-type", answer.content_type.to_owned()), (REASON_HEADER, reason.to_owned())];
        headers.extend(answer.headers);
        Reply { status: answer.status, headers, body: answer.body, details: reason }
    }

    /// The id that a JSON-RPC client matches the answer by: text or a number, else none.
    fn matchable_id(&self) -> Option<&str> {
        let id = self.json_rpc_id?.trim();
        (Decimal::of(id.as_bytes()).is_some() || is_json_text(id)).then_some(id)
    }

    fn is_json_rpc(&self) -> bool {
        matches!(self.format, Format::Mcp | Format::A2a)
    }
}

/// Whether it is a JSON string from quote to quote. The client gets back what it sent, so half a surrogate pair will do.
fn is_json_text(id: &str) -> bool {
    let string = Json::root(id.as_bytes()).ok().and_then(Json::string);
    string.is_some_and(|string| {
        let plain = string.raw().iter().all(|&byte| byte >= b' ');
        plain && unescape(string.raw(), &mut |_| {}).is_ok()
    })
}

/// Tells a refusal from an upstream's own answer, whatever the body.
const REASON_HEADER: &str = "x-kill-switch-reason";

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A reply before the headers that all replies have.
struct Answer {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}
