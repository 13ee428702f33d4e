//! The record of an agent as it is stored: its policy, what this Envoy has done about it since, and its common window.
//!
//! The policy has a fixed length, because every request reads it. The rules of single tools follow it, also in a fixed
//! layout. What else only few agents have, the *details*, is JSON.

use serde::{Deserialize, Serialize};

use crate::codec::Reader;
use crate::detect::progress::Rules;
use crate::detect::score::Scorer;
use crate::detect::tools::{self, RULE_BYTES, StoredRule};
use crate::detect::window::Window;
use crate::policy::{
    DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE, MAX_RETRY_AFTER_SECONDS, MAX_SESSION_STOP_SECONDS, MAX_STOPPED_SESSIONS,
    check_settings,
};
use crate::wire::{Action, AgentPolicy, AnswerLoop, Counting, DeactivatedBy, Scope, StoppedSession, WHOLE_AGENT};

/// The policy of one agent: what the sidecar said last, and what this Envoy did since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The round of full syncs in which the record was written. Records of older rounds belong to deleted agents.
    pub round: u32,
    /// Whether the agent may call at all.
    pub active: bool,
    /// Why it may not.
    pub deactivated_by: Option<DeactivatedBy>,
    /// The generation of the policy.
    pub generation: u64,
    /// Whether the kill switch is on.
    pub enabled: bool,
    /// How many calls are looked at, the current one included.
    pub window_size: u32,
    /// The score that must be exceeded.
    pub threshold: f64,
    /// What happens when a loop is detected.
    pub action: Action,
    /// How repeats are counted.
    pub counting: Counting,
    /// How long [`Action::Block`] refuses requests.
    pub retry_after_seconds: u32,
    /// After how many seconds of silence a run is over, or 0 for never.
    pub idle_reset_seconds: u32,
    /// What a detected loop stops.
    pub scope: Scope,
    /// How long a stopped conversation is refused.
    pub session_stop_seconds: u32,
    /// What happens when the model repeats itself within one answer.
    pub answer_loop: AnswerLoop,
    /// Until when requests are refused, in [steady](crate::host::Host::steady_ms) milliseconds.
    pub blocked_until_ms: u64,
    /// How often the agent was blocked. Each block starts a fresh window.
    pub blocks: u32,
    /// When the report of a kill was last sent again because the sidecar did not know of it, in steady milliseconds.
    pub told_again_ms: u64,
}

impl Record {
    /// Creates a record from a policy. Settings that are out of bounds are replaced or limited.
    pub fn new(policy: &AgentPolicy, round: u32) -> Self {
        let settings = check_settings(f64::from(policy.kill_switch_window_size), policy.kill_switch_threshold);
        let (window_size, threshold) = settings.unwrap_or((DEFAULT_WINDOW_SIZE, DEFAULT_THRESHOLD));
        Self {
            round,
            active: policy.active,
            deactivated_by: policy.deactivated_by,
            generation: policy.generation,
            enabled: policy.kill_switch_enabled,
            window_size,
            threshold,
            action: policy.action,
            counting: policy.counting,
            retry_after_seconds: policy.retry_after_seconds.clamp(1, MAX_RETRY_AFTER_SECONDS),
            idle_reset_seconds: policy.idle_reset_seconds,
            scope: policy.scope,
            session_stop_seconds: policy.session_stop_seconds.clamp(1, MAX_SESSION_STOP_SECONDS),
            answer_loop: policy.answer_loop,
            blocked_until_ms: 0,
            blocks: 0,
            told_again_ms: 0,
        }
    }

    /// Applies a policy that has just arrived to the record that is there, if any.
    ///
    /// A kill or a block by this Envoy outlives a policy of the same generation, because the sidecar may not know of it
    /// yet. Only an activation ends it, which increases the generation.
    pub fn updated(before: Option<&Self>, policy: &AgentPolicy, round: u32) -> Self {
        let new = Self::new(policy, round);
        match before {
            Some(before) if before.generation == new.generation => {
                let killed = before.is_killed();
                Self {
                    active: new.active && !killed,
                    deactivated_by: new.deactivated_by.or(before.deactivated_by.filter(|_| killed)),
                    blocked_until_ms: before.blocked_until_ms,
                    blocks: before.blocks,
                    told_again_ms: before.told_again_ms,
                    ..new
                }
            }
            _ => new,
        }
    }

    /// Returns the record after the kill switch has deactivated the agent.
    pub fn killed(&self) -> Self {
        Self { active: false, deactivated_by: Some(DeactivatedBy::KillSwitch), ..*self }
    }

    /// Returns the record after the kill switch has blocked the agent.
    pub fn blocked(&self, now_ms: u64) -> Self {
        let until = now_ms.saturating_add(u64::from(self.retry_after_seconds) * 1000);
        // Starts a fresh window: no existing one has this generation.
        Self { blocked_until_ms: until, blocks: self.blocks.wrapping_add(1), ..*self }
    }

    /// Blocks the agent if the sidecar has done so and this Envoy has not. The clock of the sidecar may differ from this
    /// one, so the block lasts no longer than the settings say.
    pub fn apply_block(&mut self, policy: &AgentPolicy, now: Now) {
        let Some(stop) = policy.stopped_sessions.iter().find(|stop| stop.key == WHOLE_AGENT) else { return };
        let left_ms = now.left_ms(stop).min(self.stop_ms(Action::Block));
        if left_ms > 0 && self.blocked_until_ms <= now.steady_ms {
            self.blocked_until_ms = now.steady_ms + left_ms;
            self.blocks = self.blocks.wrapping_add(1);
        }
    }

    /// Returns how long a conversation is refused that was stopped by this action.
    pub fn stop_ms(&self, action: Action) -> u64 {
        let seconds = if action == Action::Block { self.retry_after_seconds } else { self.session_stop_seconds };
        u64::from(seconds) * 1000
    }

    /// Whether the kill switch deactivated the agent.
    pub fn is_killed(&self) -> bool {
        !self.active && self.deactivated_by == Some(DeactivatedBy::KillSwitch)
    }

    /// Returns how many more seconds the agent is blocked, rounded up, or 0 if it is not blocked.
    pub fn blocked_for_seconds(&self, now_ms: u64) -> u32 {
        u32::try_from(self.blocked_until_ms.saturating_sub(now_ms).div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// Identifies the window that belongs to this record. Changes with every activation and every block.
    pub fn window_generation(&self) -> u64 {
        self.generation.wrapping_shl(16) | u64::from(self.blocks & 0xFFFF)
    }

    /// Decodes the agent's common window.
    pub fn window(&self, bytes: &[u8]) -> Window {
        Window::decode(bytes, self.window_generation(), self.counting)
    }

    /// Decodes a window that conversations share.
    pub fn slot(&self, bytes: &[u8]) -> Window {
        Window::decode_slot(bytes, self.window_generation(), self.counting)
    }

    /// Returns the scorer for calls of this agent.
    pub fn scorer(&self) -> Scorer {
        Scorer {
            window_size: self.window_size,
            counting: self.counting,
            rules: Rules::default(),
            idle_reset_seconds: self.idle_reset_seconds,
        }
    }
}

/// What only few agents have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Why the agent was deactivated or blocked, in the words of the event.
    #[serde(default)]
    pub reason: String,
    /// The conversations that were stopped. In contrast to a policy, their times are in
    /// [steady](crate::host::Host::steady_ms) milliseconds.
    #[serde(default)]
    pub stopped_sessions: Vec<StoppedSession>,
    /// The report of the kill, without its evidence, if this Envoy deactivated the agent. It is sent again if the sidecar
    /// says that the agent is active.
    #[serde(default)]
    pub report: String,
    /// The tools whose calls are counted differently.
    #[serde(skip)]
    pub tools: Vec<StoredRule>,
}

/// The time at which a policy arrives.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// In milliseconds since 1970.
    pub clock_ms: u64,
    /// In [steady](crate::host::Host::steady_ms) milliseconds.
    pub steady_ms: u64,
}

impl Now {
    /// Returns how long a stop that the sidecar has sent still lasts.
    fn left_ms(self, stop: &StoppedSession) -> u64 {
        stop.stopped_for_ms.unwrap_or(stop.until_ms.saturating_sub(self.clock_ms))
    }
}

impl Details {
    /// Returns the stop of a conversation, if there is one. It may be over.
    pub fn stop(&self, conversation: u64) -> Option<&StoppedSession> {
        let key = session_key(conversation);
        self.stopped_sessions.iter().find(|stop| stop.key == key)
    }

    /// Adds the stop of a conversation. If there are too many, the one that ends first is forgotten.
    pub fn add_stop(&mut self, stop: StoppedSession) {
        self.stopped_sessions.retain(|known| known.key != stop.key);
        self.stopped_sessions.push(stop);
        if self.stopped_sessions.len() > MAX_STOPPED_SESSIONS as usize {
            let first = self.stopped_sessions.iter().enumerate().min_by_key(|(_, stop)| stop.until_ms);
            if let Some((index, _)) = first {
                self.stopped_sessions.remove(index);
            }
        }
    }

    /// Applies a policy of the same generation.
    ///
    /// A stop by this Envoy outlives a policy that does not know of it yet. It ends with its time, or when a person has let
    /// the conversation go on since.
    pub fn updated(&self, policy: &AgentPolicy, record: &Record, now: Now) -> Self {
        let mut updated = Self::new(policy, record, now);
        if updated.reason.is_empty() {
            updated.reason.clone_from(&self.reason);
        }
        updated.report.clone_from(&self.report);
        for local in &self.stopped_sessions {
            let known = updated.stopped_sessions.iter().find(|known| known.key == local.key);
            let is_newer = |known: &StoppedSession| (known.releases, known.until_ms) < (local.releases, local.until_ms);
            if known.map_or(local.until_ms > now.steady_ms, is_newer) {
                updated.add_stop(local.clone());
            }
        }
        updated
    }

    /// Takes the details of a policy whose settings are in `record`.
    ///
    /// No stop lasts longer than the settings say, whatever the clock of the sidecar says.
    pub fn new(policy: &AgentPolicy, record: &Record, now: Now) -> Self {
        let reason = policy.reason.clone().unwrap_or_default();
        let mut details = Self { reason, tools: tools::encode(&policy.tools, record.window_size), ..Self::default() };
        for stop in &policy.stopped_sessions {
            if stop.key == WHOLE_AGENT {
                details.reason.clone_from(&stop.reason);
                continue;
            }
            let left_ms = now.left_ms(stop).min(record.stop_ms(stop.action));
            let until_ms = if left_ms == 0 { 0 } else { now.steady_ms + left_ms };
            details.add_stop(StoppedSession { until_ms, stopped_for_ms: None, ..stop.clone() });
        }
        details
    }

    /// Encodes everything but the rules of tools.
    fn encode(&self) -> Vec<u8> {
        let is_empty = self.reason.is_empty() && self.stopped_sessions.is_empty() && self.report.is_empty();
        if is_empty { Vec::new() } else { serde_json::to_vec(self).unwrap_or_default() }
    }
}

/// Returns a conversation's key as reports and policies have it.
pub fn session_key(conversation: u64) -> String {
    format!("{conversation:016x}")
}

/// The parts of a stored value.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// The policy.
    pub record: Record,
    /// The tools whose calls are counted differently.
    pub tools: &'a [StoredRule],
    /// The encoded policy, the rules of tools and the details.
    pub policy: &'a [u8],
    /// The common window.
    pub window: &'a [u8],
}

impl<'a> Value<'a> {
    /// Splits a stored value. Returns `None` if there is no record in it.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let record = Record::read(&mut reader)?;
        let tools_len = usize::from(reader.byte()?) * RULE_BYTES;
        let details_len = reader.u32()? as usize;
        let tools = reader.rest().get(..tools_len)?.as_chunks().0;
        let (policy, window) = bytes.split_at_checked((Record::BYTES + tools_len).checked_add(details_len)?)?;
        Some(Self { record, tools, policy, window })
    }

    /// Whether a conversation may be among those that were stopped. Looks only for its key, because decoding the stops of many
    /// conversations takes much longer.
    pub fn may_have_stopped(&self, conversation: u64) -> bool {
        let json = self.policy.get(self.details_start()..).unwrap_or_default();
        if json.is_empty() {
            return false;
        }
        let key = session_key(conversation);
        let is_key = |quote: usize| json.get(quote + 1..).is_some_and(|text| text.starts_with(key.as_bytes()));
        memchr::memchr_iter(b'"', json).any(is_key)
    }

    /// Decodes the details.
    pub fn details(&self) -> Details {
        let json = self.policy.get(self.details_start()..).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let details = json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        Details { tools: self.tools.to_vec(), ..details }
    }

    fn details_start(&self) -> usize {
        Record::BYTES + self.tools.as_flattened().len()
    }

    /// Encodes the value with another record and other details.
    pub fn with_policy(&self, record: &Record, details: &Details) -> Vec<u8> {
        [record.encode(details).as_slice(), self.window].concat()
    }

    /// Encodes the value with another window.
    pub fn with_window(&self, window: &Window) -> Vec<u8> {
        [self.policy, window.bytes()].concat()
    }
}

/// The version of the encoding below. Bytes of any other version are not a record.
const VERSION: u8 = 4;
const ACTIVE: u8 = 1;
const ENABLED: u8 = 2;
const BY_KILL_SWITCH: u8 = 4;
const MANUALLY: u8 = 8;
const SESSION_SCOPE: u8 = 16;

impl Record {
    /// The length of an encoded record. The rules of tools, the details and the window follow it.
    pub const BYTES: usize = 66;

    /// Encodes the record and its details, without a window.
    pub fn encode(&self, details: &Details) -> Vec<u8> {
        let flag = |flag: u8, on: bool| if on { flag } else { 0 };
        let flags = flag(ACTIVE, self.active)
            | flag(ENABLED, self.enabled)
            | flag(BY_KILL_SWITCH, self.deactivated_by == Some(DeactivatedBy::KillSwitch))
            | flag(MANUALLY, self.deactivated_by == Some(DeactivatedBy::Manual))
            | flag(SESSION_SCOPE, self.scope == Scope::Session);
        let (tools, details) = (&details.tools, details.encode());
        let mut bytes = Vec::with_capacity(Self::BYTES + tools.as_flattened().len() + details.len());
        bytes.extend(self.round.to_le_bytes());
        bytes.extend([VERSION, flags, self.action as u8, self.counting as u8, self.answer_loop as u8]);
        bytes.extend(self.window_size.to_le_bytes());
        bytes.extend(self.retry_after_seconds.to_le_bytes());
        bytes.extend(self.blocks.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.threshold.to_le_bytes());
        bytes.extend(self.blocked_until_ms.to_le_bytes());
        bytes.extend(self.idle_reset_seconds.to_le_bytes());
        bytes.extend(self.session_stop_seconds.to_le_bytes());
        bytes.extend(self.told_again_ms.to_le_bytes());
        bytes.push(tools.len() as u8);
        bytes.extend((details.len() as u32).to_le_bytes());
        bytes.extend(tools.as_flattened());
        bytes.extend(details);
        bytes
    }

    /// Reads a record. Returns `None` if the bytes are too short, invalid or of another version.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let round = reader.u32()?;
        if reader.byte()? != VERSION {
            return None;
        }
        let flags = reader.byte()?;
        let deactivated_by = match flags & (BY_KILL_SWITCH | MANUALLY) {
            BY_KILL_SWITCH => Some(DeactivatedBy::KillSwitch),
            MANUALLY => Some(DeactivatedBy::Manual),
            _ => None,
        };
        let action = usize::from(reader.byte()?);
        let counting = usize::from(reader.byte()?);
        let answer_loop = usize::from(reader.byte()?);
        Some(Self {
            round,
            active: flags & ACTIVE != 0,
            enabled: flags & ENABLED != 0,
            deactivated_by,
            action: *[Action::Deactivate, Action::Block, Action::Observe].get(action)?,
            counting: *[Counting::Literal, Counting::Progress].get(counting)?,
            window_size: reader.u32()?,
            retry_after_seconds: reader.u32()?,
            blocks: reader.u32()?,
            generation: reader.u64()?,
            threshold: reader.f64()?,
            blocked_until_ms: reader.u64()?,
            idle_reset_seconds: reader.u32()?,
            scope: if flags & SESSION_SCOPE != 0 { Scope::Session } else { Scope::Agent },
            session_stop_seconds: reader.u32()?,
            answer_loop: *[AnswerLoop::Off, AnswerLoop::Observe, AnswerLoop::Cut].get(answer_loop)?,
            told_again_ms: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod properties;
