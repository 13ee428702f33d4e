//! The filter's configuration: JSON in, a `Config` out that needs no further checking, or an error that says what to
//! change.
//!
//! Every default and bound stands in `fields`; docs/configuration.md explains each, and a test holds the two together.
//! No host, no environment, no clock. What is set per agent (window, threshold, action) is no part of it: that is
//! policy, and arrives from the sidecar.

mod error;
mod fields;
mod identity;
mod json;
mod object;
mod parser;
mod patterns;
mod token;

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use identity::{AgentSource, Forwarded};
pub use token::Token;

use std::rc::Rc;

use crate::fingerprint::patterns::Pattern;
use object::Object;

/// A configuration that has been checked. `Config::parse` is the only way to one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The Envoy cluster of the sidecar.
    pub cluster: String,
    /// The `:authority` of calls to the sidecar.
    pub authority: String,
    /// The bearer token of calls to the sidecar.
    pub token: Option<Token>,
    /// Where an agent's id is looked for, the first hit wins. Never empty.
    pub agent_id: Vec<AgentSource>,
    /// Whether a request without a valid agent id is refused; else it passes uninspected.
    pub require_agent: bool,
    /// What becomes of requests before the first policy has arrived.
    pub on_no_policy: OnNoPolicy,
    /// The request header, in lower case, that tells an agent's sessions apart.
    pub session_header: Option<String>,
    /// How many windows the sessions of one agent share.
    pub session_slots: u32,
    /// Which phase holds a request until it is judged.
    pub hold: Hold,
    /// Longer request bodies pass uninspected.
    pub max_request_bytes: usize,
    /// Longer lines or events of a streamed answer are skipped.
    pub max_event_bytes: usize,
    /// What the upstream is asked to compress.
    pub accept_encoding: AcceptEncoding,
    /// The operator's own normalisation patterns.
    pub patterns: Rc<[Pattern]>,
    /// What an inactive agent is answered with.
    pub inactive_reply: InactiveReply,
    /// Where a person can see the agent and activate it. No slash at the end.
    pub dashboard_url: Option<String>,
    /// What a kill report says about the repeated input.
    pub evidence: Evidence,
    /// How this Envoy is called in the dashboard.
    pub envoy_name: Option<String>,
    /// How long the sidecar may hold a sync poll.
    pub sync_wait_seconds: u32,
    /// How often observations are sent.
    pub observe_interval_ms: u32,
}

/// What becomes of requests before the first policy has arrived: `on_no_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNoPolicy {
    /// They pass uninspected.
    Allow,
    /// They are refused.
    Deny,
}

/// Which phase holds a request until it is judged: `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The upstream sees nothing before the verdict. Needs `allow_on_headers_stop_iteration: true` in Envoy.
    Headers,
    /// The upstream sees the headers early, and an aborted request on a kill.
    Body,
}

/// What the upstream is asked to compress: `accept_encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptEncoding {
    /// Nothing, so that answers can be read.
    Identity,
    /// Whatever the client accepts. Compressed answers are not looked at.
    Keep,
}

/// What an inactive agent is answered with: `inactive_reply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InactiveReply {
    /// An error in the shape of the client's API.
    Error,
    /// A completion whose text says the same.
    Completion,
}

/// What a kill report says about the repeated input: `evidence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Hashes and distances only.
    None,
    /// Its beginning as well.
    Excerpt,
}

impl Config {
    /// Reads a configuration. `env` looks up a variable of the VM's environment.
    pub fn parse(bytes: &[u8], env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        if bytes.trim_ascii().is_empty() {
            return Err(ConfigError::Empty);
        }
        let json = parser::parse(bytes).map_err(|reason| ConfigError::NotJson { reason })?;
        Self::from_object(&Object::top(&json, fields::FIELDS)?, env)
    }

    fn from_object(object: &Object, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Self {
            cluster: object.required(&fields::CLUSTER)?.to_owned(),
            authority: object.required(&fields::AUTHORITY)?.to_owned(),
            token: token::token(object, env)?,
            agent_id: identity::sources(object)?,
            require_agent: object.flag(&fields::REQUIRE_AGENT)?,
            on_no_policy: object.choice(&fields::ON_NO_POLICY, [OnNoPolicy::Allow, OnNoPolicy::Deny])?,
            session_header: object.text(&fields::SESSION_HEADER)?.map(str::to_ascii_lowercase),
            session_slots: object.whole(&fields::SESSION_SLOTS)?,
            hold: object.choice(&fields::HOLD, [Hold::Headers, Hold::Body])?,
            max_request_bytes: object.whole(&fields::MAX_REQUEST_BYTES)? as usize,
            max_event_bytes: object.whole(&fields::MAX_EVENT_BYTES)? as usize,
            accept_encoding: object
                .choice(&fields::ACCEPT_ENCODING, [AcceptEncoding::Identity, AcceptEncoding::Keep])?,
            patterns: patterns::patterns(object)?.into(),
            inactive_reply: object
                .choice(&fields::INACTIVE_REPLY, [InactiveReply::Error, InactiveReply::Completion])?,
            dashboard_url: owned(object.text(&fields::DASHBOARD_URL)?.map(|url| url.trim_end_matches('/'))),
            evidence: object.choice(&fields::EVIDENCE, [Evidence::None, Evidence::Excerpt])?,
            envoy_name: owned(object.text(&fields::ENVOY_NAME)?),
            sync_wait_seconds: object.whole(&fields::SYNC_WAIT_SECONDS)?,
            observe_interval_ms: object.whole(&fields::OBSERVE_INTERVAL_MS)?,
        })
    }
}
