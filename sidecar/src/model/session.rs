//! Conversations that the kill switch has stopped while their agents went on.

use agent_kill_switch::wire::{Action, StoppedSession};

use super::Millis;
use crate::clock::CLOCK_TOLERANCE_MS;

/// One stop of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStop {
    /// A number that rises with every stop. Assigned by the store.
    pub id: u64,
    /// The agent that the conversation belongs to.
    pub agent_id: String,
    /// The generation in which it was stopped. A stop of another generation than the agent's is over.
    pub generation: u64,
    /// The hash by which filters identify the conversation.
    pub session_key: String,
    /// The id that the client sent, if it sent one.
    pub session_id: Option<String>,
    /// How often a person had let the conversation go on before this stop.
    pub releases: u32,
    /// The report that stopped it.
    pub kill_id: String,
    /// The event that records it.
    pub event_id: u64,
    /// What the filter did.
    pub action: Action,
    /// What was repeated.
    pub reason: String,
    /// When it was stopped.
    pub stopped_ms: Millis,
    /// Until when its calls are refused, unless a person lets it go on.
    pub until_ms: Millis,
    /// Until when filters are told of the stop, or of its release.
    pub told_until_ms: Millis,
    /// When a person let it go on, and who did.
    pub released: Option<(Millis, String)>,
}

impl SessionStop {
    /// Whether calls of the conversation are refused at this time. A stop is over if the clock was set back since.
    pub fn is_in_force(&self, now_ms: Millis) -> bool {
        let is_of_this_clock = self.stopped_ms <= now_ms.saturating_add(CLOCK_TOLERANCE_MS);
        self.released.is_none() && now_ms < self.until_ms && is_of_this_clock
    }

    /// Returns how often a person has let the conversation go on, this stop included.
    pub fn all_releases(&self) -> u32 {
        self.releases.saturating_add(u32::from(self.released.is_some()))
    }

    /// Returns what filters are told at this time.
    pub fn told(&self, now_ms: Millis) -> StoppedSession {
        StoppedSession {
            key: self.session_key.clone(),
            until_ms: if self.released.is_some() { 0 } else { self.until_ms },
            stopped_for_ms: Some(if self.is_in_force(now_ms) { self.until_ms.saturating_sub(now_ms) } else { 0 }),
            releases: self.all_releases(),
            action: self.action,
            reason: self.reason.clone(),
        }
    }
}

/// Returns how events name a conversation: by the id that the client sent, or else by its key.
pub fn session_name(session_id: Option<&str>, session_key: &str) -> String {
    session_id.map_or_else(|| format!("conversation {session_key}"), str::to_owned)
}
