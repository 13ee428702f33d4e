//! What a refusal says in every format: a code for programs, facts for logs, and a message for people.
//!
//! The message says what happened, whether trying again helps, and who can change it and where. Values that came from
//! the client are shortened; they are escaped when they are put into a template.

use super::template::json_string;
use super::{Cause, Refusal};
use crate::wire::{Action, DeactivatedBy};
use std::borrow::Cow;

/// How long a client should wait for the first policy: it arrives within a second once the sidecar answers.
pub(super) const NO_POLICY_RETRY_SECONDS: u32 = 5;

/// How much of a client's own text is repeated: the length of the longest valid agent id.
const MAX_REPEATED_CHARS: usize = 128;

impl Cause {
    /// Returns the reason as one word.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Inactive { .. } => "agent_inactive",
            Self::Blocked { .. } => "loop_detected",
            Self::SessionStopped { .. } => "session_stopped",
            Self::NoPolicy => "no_policy",
            Self::Unjudged { .. } => "call_not_judged",
            Self::MissingAgent => "missing_agent_id",
            Self::BadAgentId => "bad_agent_id",
        }
    }

    /// Returns the HTTP status of the error.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Inactive { .. } | Self::Unjudged { .. } => 403,
            Self::SessionStopped { .. } if self.is_stopped_session() => 403,
            Self::Blocked { .. } | Self::SessionStopped { .. } => 429,
            Self::NoPolicy => 503,
            Self::MissingAgent | Self::BadAgentId => 400,
        }
    }

    /// Whether this is a conversation that was stopped rather than blocked for a while.
    pub(super) fn is_stopped_session(&self) -> bool {
        matches!(self, Self::SessionStopped { action, .. } if *action != Action::Block)
    }

    /// Returns after how many seconds the same request may succeed without anyone doing anything.
    pub(super) fn retry_after_seconds(&self) -> Option<u32> {
        match self {
            Self::SessionStopped { .. } if self.is_stopped_session() => None,
            Self::Blocked { retry_after_seconds, .. } | Self::SessionStopped { retry_after_seconds, .. } => {
                Some((*retry_after_seconds).max(1))
            }
            Self::NoPolicy => Some(NO_POLICY_RETRY_SECONDS),
            Self::Inactive { .. } | Self::Unjudged { .. } | Self::MissingAgent | Self::BadAgentId => None,
        }
    }
}

impl Refusal<'_> {
    /// Returns what happened and what can be done about it.
    pub fn message(&self) -> String {
        let agent = self.agent_id.map_or(Cow::Borrowed("This agent"), |id| format!("Agent {}", shortened(id)).into());
        match &self.cause {
            Cause::Inactive { by, reason } => format!(
                "{agent} is inactive{}. This call was not forwarded, and trying again does not help: every call is \
                 refused until a person activates the agent {}.",
                inactive_because(*by, reason),
                self.dashboard_hint()
            ),
            Cause::Blocked { retry_after_seconds, reason } => format!(
                "{agent} is blocked: loop detected{}. This call was not forwarded. \
                 Calls are accepted again in {} s; a client that simply repeats them then will be blocked again. \
                 What was detected can be seen {}.",
                in_brackets(reason),
                (*retry_after_seconds).max(1),
                self.dashboard_hint()
            ),
            Cause::SessionStopped { session, reason, retry_after_seconds, .. } => format!(
                "Conversation {} of {} was stopped: loop detected{}. This call was not forwarded. \
                 Other conversations of the agent go on. This one is refused for {} s, or until a person lets it go on {}.",
                shortened(session),
                self.agent_id.map_or("this agent".into(), |id| format!("agent {}", shortened(id))),
                in_brackets(reason),
                (*retry_after_seconds).max(1),
                self.dashboard_hint()
            ),
            Cause::NoPolicy => format!(
                "The kill switch in front of this API has not received its policy yet and refuses calls until it \
                 has. Try again in {NO_POLICY_RETRY_SECONDS} s. If it stays so, the operator should check that the \
                 kill switch's sidecar can be reached."
            ),
            Cause::Unjudged { because } => format!(
                "{agent} sent a call that cannot be checked for loops: {because}. This call was not forwarded, because \
                 the kill switch in front of this API is configured to refuse such calls."
            ),
            Cause::MissingAgent => "This call names no agent, and the kill switch in front of this API is configured \
                 to require one. The operator knows how agents identify themselves here."
                .to_owned(),
            Cause::BadAgentId => format!(
                "{} is not an agent id: 1 to 128 bytes of A-Z a-z 0-9 . _ : @ / - are, except . and .. alone.",
                json_string(&shortened(self.agent_id.unwrap_or_default()))
            ),
        }
    }

    /// Returns where a person can see the agent and activate it.
    fn dashboard_hint(&self) -> String {
        match self.dashboard_url {
            Some(url) => format!("in the kill switch's dashboard ({url})"),
            None => "in the kill switch's dashboard".to_owned(),
        }
    }

    /// Returns what programs and logs need to know, as names and JSON values. The code comes first.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let agent_id = self.agent_id.map_or("null".to_owned(), |id| json_string(&shortened(id)));
        let mut facts = vec![("code", json_string(self.cause.code())), ("agent_id", agent_id)];
        match &self.cause {
            Cause::Inactive { by, .. } => facts.push(("deactivated_by", deactivated_by(*by).to_owned())),
            Cause::Blocked { .. } => {
                facts.push(("blocked", "true".to_owned()));
                facts.push(("block_reason", json_string(self.cause.code())));
            }
            Cause::SessionStopped { session, .. } => facts.push(("session", json_string(&shortened(session)))),
            Cause::NoPolicy | Cause::Unjudged { .. } | Cause::MissingAgent | Cause::BadAgentId => {}
        }
        if let Some(seconds) = self.cause.retry_after_seconds() {
            facts.push(("retry_after_seconds", seconds.to_string()));
        }
        facts
    }
}

fn inactive_because(by: Option<DeactivatedBy>, reason: &str) -> String {
    match by {
        Some(DeactivatedBy::KillSwitch) => {
            format!(": the kill switch deactivated it, because it was in a loop{}", in_brackets(reason))
        }
        Some(DeactivatedBy::Manual) => ": a person deactivated it".to_owned(),
        None => String::new(),
    }
}

/// Returns the reason in brackets, with a space before it, if there is one.
fn in_brackets(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

fn deactivated_by(by: Option<DeactivatedBy>) -> &'static str {
    match by {
        Some(DeactivatedBy::KillSwitch) => r#""kill_switch""#,
        Some(DeactivatedBy::Manual) => r#""manual""#,
        None => "null",
    }
}

/// Shortens a client's own text to a length that is useful to repeat.
pub(super) fn shortened(given: &str) -> Cow<'_, str> {
    match given.char_indices().nth(MAX_REPEATED_CHARS) {
        Some((end, _)) => format!("{}...", given.get(..end).unwrap_or_default()).into(),
        None => given.into(),
    }
}
