//! Refusals: what a client receives if its request is not forwarded, in the format of its own API.
//!
//! Pure: a [`Refusal`] in, status, headers and body out. The host sends them. `message` has what is said, once for all
//! formats. `templates/` has how each API wraps it, as it goes over the wire. Templates rather than values that are built
//! in code can be compared line by line with an API's documentation, and add little to the module. The reasons for the
//! statuses and headers are in docs/configuration.md, "What a refused client sees".
//!
//! gRPC is left to Envoy, which turns the status into a grpc-status.

mod completions;
mod date;
mod errors;
mod event_stream;
mod message;
mod template;

#[cfg(test)]
mod tests;

use crate::config::InactiveReply;
use crate::decode::envelope::Delivery;
use crate::turn::Format;
use crate::wire::{Action, DeactivatedBy};
use serde_json::value::RawValue;

/// A request that is not forwarded, with everything that the reply depends on.
#[derive(Clone, Debug)]
pub struct Refusal<'a> {
    /// The API that the client speaks.
    pub format: Format,
    /// How the client expects the answer.
    pub delivery: Delivery,
    /// The request's JSON-RPC id as JSON text. `None` if it is unknown or the request is a notification.
    pub json_rpc_id: Option<&'a str>,
    /// The model that was asked for, if it is known.
    pub model: Option<&'a str>,
    /// Whether the request is a call, which can be answered with a completion.
    pub is_call: bool,
    /// The agent's id, or the malformed id that was given.
    pub agent_id: Option<&'a str>,
    /// Why the request is refused.
    pub cause: Cause,
    /// What an inactive agent gets as a reply.
    pub style: InactiveReply,
    /// Where a person can see the agent and activate it.
    pub dashboard_url: Option<&'a str>,
    /// The time of the refusal, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The agent is inactive.
    Inactive {
        /// Who deactivated it, if that is known.
        by: Option<DeactivatedBy>,
        /// What was repeated, in the words of the event. Empty if that is not known.
        reason: String,
    },
    /// A loop was detected, and `action: block` is in force.
    Blocked {
        /// How long requests will be refused.
        retry_after_seconds: u32,
        /// What was repeated, in the words of the event. Empty if that is not known.
        reason: String,
    },
    /// A loop was detected in this conversation, and `scope: session` is in force.
    SessionStopped {
        /// The conversation: its id, or the key by which it is known.
        session: String,
        /// What was repeated, in the words of the event.
        reason: String,
        /// How long calls of the conversation will be refused.
        retry_after_seconds: u32,
        /// What the policy does about a loop. [`Action::Block`] tells the client when to come back.
        action: Action,
    },
    /// No policy has arrived yet, and `on_no_policy: deny` is in force.
    NoPolicy,
    /// The request cannot be judged, and `on_unjudged: deny` is in force.
    Unjudged {
        /// What prevents it and what would help, as the end of "cannot be checked for loops: ".
        because: &'static str,
    },
    /// There is no agent id, and `require_agent: true` is in force.
    MissingAgent,
    /// The agent id is malformed, and `require_agent: true` is in force.
    BadAgentId,
}

/// A reply, ready to be sent.
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
    /// Returns the reply to the client.
    pub fn reply(&self) -> Reply {
        self.completion().unwrap_or_else(|| self.error())
    }

    /// Returns the reply to an array of JSON-RPC requests with these ids: an array with a reply to each of them.
    pub fn reply_to_batch(&self, ids: &[String]) -> Reply {
        let reply_to =
            |id: &String| Refusal { json_rpc_id: Some(id), delivery: Delivery::Whole, ..self.clone() }.reply();
        let mut replies = ids.iter().map(reply_to);
        let Some(mut reply) = replies.next() else { return self.reply() };
        reply.body.insert(0, b'[');
        for other in replies {
            reply.body.push(b',');
            reply.body.extend(other.body);
        }
        reply.body.push(b']');
        reply
    }

    fn reply_with(&self, status: u16, content_type: &str, body: Vec<u8>) -> Reply {
        let code = self.cause.code();
        let headers = vec![("content-type", content_type.to_owned()), (REASON_HEADER, code.to_owned())];
        Reply { status, headers, body, details: code }
    }

    /// Returns the id by which a JSON-RPC client finds its request, as it was sent, if it is a JSON string or number.
    fn matchable_id(&self) -> Option<&str> {
        let id = serde_json::from_str::<&RawValue>(self.json_rpc_id?).ok()?.get();
        id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit()).then_some(id)
    }

    fn is_json_rpc(&self) -> bool {
        matches!(self.format, Format::Mcp | Format::A2a)
    }
}

/// The header that distinguishes a refusal from an answer of the upstream, whatever the body is.
const REASON_HEADER: &str = "x-kill-switch-reason";

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
