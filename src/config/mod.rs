//! The filter's configuration: JSON in, a checked [`Config`] out, or an error that says what to change.
//!
//! `Config::parse` has every setting with its default and bounds (`agent_id`, `session`, `patterns` and the token have
//! files of their own); `rules` has what texts must be. docs/configuration.md explains each setting, and a test holds the page and
//! the code together. No host, no environment, no clock. The settings of an agent (window, threshold, action) are policy
//! and come from the sidecar.

mod error;
mod identity;
mod patterns;
mod raw;
mod rules;
mod session;
mod token;

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use identity::{AgentSource, Forwarded};
pub use session::{SessionSource, SessionSources};
pub use token::Token;

use std::rc::Rc;

use crate::fingerprint::patterns::Pattern;
use raw::{RawConfig, choice, flag, required_text, text, whole};
use serde_json::value::RawValue;

/// A configuration that has been checked. [`Config::parse`] is the only way to get one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The Envoy cluster of the sidecar.
    pub cluster: String,
    /// The `:authority` of calls to the sidecar.
    pub authority: String,
    /// The bearer token of calls to the sidecar.
    pub token: Option<Token>,
    /// Where an agent's id is looked for. The first hit wins. Never empty.
    pub agent_id: Vec<AgentSource>,
    /// Whether a request without a valid agent id is refused. If not, it is forwarded uninspected.
    pub require_agent: bool,
    /// What happens to requests before the first policy has arrived.
    pub on_no_policy: OnNoPolicy,
    /// What happens to requests of guarded agents that cannot be judged.
    pub on_unjudged: OnUnjudged,
    /// Whether requests of unknown APIs are compared as well.
    pub judge_unknown: bool,
    /// Where the id of a conversation is looked for. The first hit wins.
    pub session: SessionSources,
    /// How many windows the conversations of one agent share.
    pub session_slots: u32,
    /// How much shared data the windows of all conversations may take.
    pub max_session_bytes: u32,
    /// Which phase holds a request until there is a verdict.
    pub hold: Hold,
    /// Longer request bodies are forwarded uninspected.
    pub max_request_bytes: usize,
    /// Longer lines or events of a streamed answer are skipped.
    pub max_event_bytes: usize,
    /// Which encodings the upstream is asked for.
    pub accept_encoding: AcceptEncoding,
    /// The operator's own normalisation patterns.
    pub patterns: Rc<[Pattern]>,
    /// What an inactive agent gets as a reply.
    pub inactive_reply: InactiveReply,
    /// Where a person can see the agent and activate it, without a slash at the end.
    pub dashboard_url: Option<String>,
    /// What a kill report says about the repeated input.
    pub evidence: Evidence,
    /// The name of this Envoy in the dashboard.
    pub envoy_name: Option<String>,
    /// How long the sidecar may hold a sync poll.
    pub sync_wait_seconds: u32,
    /// How often observations are sent.
    pub observe_interval_ms: u32,
    /// Whether the sidecar is told of calls and answers, so that it can recognise loops over several Envoys.
    pub fleet: bool,
}

/// What happens to requests before the first policy has arrived: `on_no_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNoPolicy {
    /// They are forwarded uninspected.
    Allow,
    /// They are refused.
    Deny,
}

/// What happens to requests of guarded agents that cannot be judged: `on_unjudged`. The values are those of `on_no_policy`,
/// and so is the type, because the code that reads a setting is compiled for every type.
pub type OnUnjudged = OnNoPolicy;

/// Which phase holds a request until there is a verdict: `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The upstream sees nothing before the verdict. Needs `allow_on_headers_stop_iteration: true` in Envoy.
    Headers,
    /// The upstream sees the headers early, and an aborted request on a kill.
    Body,
}

/// Which encodings the upstream is asked for: `accept_encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptEncoding {
    /// No compression, so that answers can be read.
    Identity,
    /// Whatever the client accepts. Compressed answers are not inspected.
    Keep,
}

/// What an inactive agent gets as a reply: `inactive_reply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InactiveReply {
    /// An error in the format of the client's API.
    Error,
    /// A completion whose text is the message of that error.
    Completion,
}

/// What a kill report says about the repeated input: `evidence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Hashes and distances only.
    None,
    /// The beginning of the input as well.
    Excerpt,
}

impl Config {
    /// Reads a configuration. `env` looks up a variable of the VM's environment.
    pub fn parse(bytes: &[u8], env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        if bytes.trim_ascii().is_empty() {
            return Err(ConfigError::Empty);
        }
        let not_json = |reason: String| ConfigError::NotJson { reason };
        let text = str::from_utf8(bytes).map_err(|error| not_json(error.to_string()))?;
        let json: &RawValue = serde_json::from_str(text).map_err(|error| not_json(error.to_string()))?;
        if json.get().starts_with('"') {
            // It may be a whole configuration, token included, that was encoded twice.
            return Err(ConfigError::invalid("", "a string", "a JSON object"));
        }
        Self::from_raw(raw::object(json)?, env)
    }

    fn from_raw(raw: RawConfig, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let max_request_bytes = whole("max_request_bytes", raw.max_request_bytes, 8 << 20, 1 << 10..=16 << 20)?;
        let max_event_bytes = whole("max_event_bytes", raw.max_event_bytes, 256 << 10, 1 << 10..=4 << 20)?;
        let allow_or_deny = [("allow", OnUnjudged::Allow), ("deny", OnUnjudged::Deny)];
        let on_unjudged = choice("on_unjudged", raw.on_unjudged, allow_or_deny)?;
        let dashboard_url = text("dashboard_url", raw.dashboard_url, &rules::URL)?;
        Ok(Self {
            cluster: required_text("cluster", raw.cluster, &rules::CLUSTER)?,
            authority: text("authority", raw.authority, &rules::AUTHORITY)?.unwrap_or_else(|| "kill-switch".to_owned()),
            token: token::token(raw.token, raw.token_env, env)?,
            agent_id: identity::sources(raw.agent_id)?,
            require_agent: flag("require_agent", raw.require_agent, false)?,
            on_no_policy: choice(
                "on_no_policy",
                raw.on_no_policy,
                [("allow", OnNoPolicy::Allow), ("deny", OnNoPolicy::Deny)],
            )?,
            on_unjudged,
            judge_unknown: flag("judge_unknown", raw.judge_unknown, false)?,
            session: session::sources(raw.session, raw.session_header)?,
            session_slots: whole("session_slots", raw.session_slots, 256, 1..=4096)?,
            max_session_bytes: whole("max_session_bytes", raw.max_session_bytes, 64 << 20, 0..=1 << 30)?,
            hold: choice("hold", raw.hold, [("headers", Hold::Headers), ("body", Hold::Body)])?,
            max_request_bytes: max_request_bytes as usize,
            max_event_bytes: max_event_bytes as usize,
            accept_encoding: choice(
                "accept_encoding",
                raw.accept_encoding,
                [("identity", AcceptEncoding::Identity), ("keep", AcceptEncoding::Keep)],
            )?,
            patterns: patterns::patterns(raw.patterns)?.into(),
            inactive_reply: choice(
                "inactive_reply",
                raw.inactive_reply,
                [("error", InactiveReply::Error), ("completion", InactiveReply::Completion)],
            )?,
            dashboard_url: dashboard_url.map(|url| url.trim_end_matches('/').to_owned()),
            evidence: choice("evidence", raw.evidence, [("none", Evidence::None), ("excerpt", Evidence::Excerpt)])?,
            envoy_name: text("envoy_name", raw.envoy_name, &rules::ENVOY_NAME)?,
            sync_wait_seconds: whole("sync_wait_seconds", raw.sync_wait_seconds, 4, 1..=55)?,
            observe_interval_ms: whole("observe_interval_ms", raw.observe_interval_ms, 1_000, 100..=60_000)?,
            fleet: flag("fleet", raw.fleet, true)?,
        })
    }
}
