//! The record of an agent as it is stored: its policy, what this Envoy has done about it since, and its common window.
//!
//! The policy has a fixed length, because every request reads it. What only few agents have, the *details*, is JSON.

use serde::{Deserialize, Serialize};

use crate::codec::Reader;
use crate::detect::progress::Rules;
use crate::detect::score::Scorer;
use crate::detect::window::Window;
use crate::policy::{
    DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE, MAX_RETRY_AFTER_SECONDS, MAX_SESSION_STOP_SECONDS, MAX_STOPPED_SESSIONS,
    check_settings,
};
use crate::wire::{Action, AgentPolicy, Counting, DeactivatedBy, Scope, StoppedSession, WHOLE_AGENT};

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
        let left_ms = stop.until_ms.saturating_sub(now.clock_ms).min(self.stop_ms(Action::Block));
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
}

/// The time at which a policy arrives.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// In milliseconds since 1970.
    pub clock_ms: u64,
    /// In [steady](crate::host::Host::steady_ms) milliseconds.
    pub steady_ms: u64,
}

impl Details {
    /// Returns the stop of a conversation, if there is one. It may be over.
    pub fn stop(&self, conversation: u64) -> Option<&StoppedSession> {
        let key = session_key(conversation);
        self.stopped_sessions.iter().find(|stop| stop.key == key)
    }

    /// Adds the stop of a conversation. If there are too many, the oldest is forgotten.
    pub fn add_stop(&mut self, stop: StoppedSession) {
        self.stopped_sessions.retain(|known| known.key != stop.key);
        self.stopped_sessions.push(stop);
        let excess = self.stopped_sessions.len().saturating_sub(MAX_STOPPED_SESSIONS as usize);
        self.stopped_sessions.drain(..excess);
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
    /// The clock of the sidecar may differ from this one, so no stop lasts longer than the settings say.
    pub fn new(policy: &AgentPolicy, record: &Record, now: Now) -> Self {
        let mut details = Self { reason: policy.reason.clone().unwrap_or_default(), ..Self::default() };
        for stop in &policy.stopped_sessions {
            if stop.key == WHOLE_AGENT {
                details.reason.clone_from(&stop.reason);
                continue;
            }
            let left_ms = stop.until_ms.saturating_sub(now.clock_ms).min(record.stop_ms(stop.action));
            let until_ms = if left_ms == 0 { 0 } else { now.steady_ms + left_ms };
            details.add_stop(StoppedSession { until_ms, ..stop.clone() });
        }
        details
    }

    fn encode(&self) -> Vec<u8> {
        if *self == Self::default() { Vec::new() } else { serde_json::to_vec(self).unwrap_or_default() }
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
    /// The encoded policy and its details.
    pub policy: &'a [u8],
    /// The common window.
    pub window: &'a [u8],
}

impl<'a> Value<'a> {
    /// Splits a stored value. Returns `None` if there is no record in it.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let record = Record::read(&mut reader)?;
        let details = reader.u32()? as usize;
        let (policy, window) = bytes.split_at_checked(Record::BYTES.checked_add(details)?)?;
        Some(Self { record, policy, window })
    }

    /// Whether there are any details.
    pub fn has_details(&self) -> bool {
        self.policy.len() > Record::BYTES
    }

    /// Decodes the details.
    pub fn details(&self) -> Details {
        let json = self.policy.get(Record::BYTES..).and_then(|bytes| std::str::from_utf8(bytes).ok());
        json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
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
const VERSION: u8 = 3;
const ACTIVE: u8 = 1;
const ENABLED: u8 = 2;
const BY_KILL_SWITCH: u8 = 4;
const MANUALLY: u8 = 8;
const SESSION_SCOPE: u8 = 16;

impl Record {
    /// The length of an encoded record. Its details and the window follow it.
    pub const BYTES: usize = 64;

    /// Encodes the record and its details, without a window.
    pub fn encode(&self, details: &Details) -> Vec<u8> {
        let flag = |flag: u8, on: bool| if on { flag } else { 0 };
        let flags = flag(ACTIVE, self.active)
            | flag(ENABLED, self.enabled)
            | flag(BY_KILL_SWITCH, self.deactivated_by == Some(DeactivatedBy::KillSwitch))
            | flag(MANUALLY, self.deactivated_by == Some(DeactivatedBy::Manual))
            | flag(SESSION_SCOPE, self.scope == Scope::Session);
        let details = details.encode();
        let mut bytes = Vec::with_capacity(Self::BYTES + details.len());
        bytes.extend(self.round.to_le_bytes());
        bytes.extend([VERSION, flags, self.action as u8, self.counting as u8]);
        bytes.extend(self.window_size.to_le_bytes());
        bytes.extend(self.retry_after_seconds.to_le_bytes());
        bytes.extend(self.blocks.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.threshold.to_le_bytes());
        bytes.extend(self.blocked_until_ms.to_le_bytes());
        bytes.extend(self.idle_reset_seconds.to_le_bytes());
        bytes.extend(self.session_stop_seconds.to_le_bytes());
        bytes.extend(self.told_again_ms.to_le_bytes());
        bytes.extend((details.len() as u32).to_le_bytes());
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
            told_again_ms: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> AgentPolicy {
        serde_json::from_str(r#"{"agent_id": "a", "active": true}"#).unwrap()
    }

    #[test]
    fn a_block_by_the_sidecar_lasts_as_long_as_it_says_and_clears_the_window_once() {
        let now = Now { clock_ms: 1_000_000, steady_ms: 5_000 };
        let block = |until_ms| {
            let (key, reason) = (WHOLE_AGENT.to_owned(), "over 2 Envoys".to_owned());
            let stop = StoppedSession { key, until_ms, releases: 0, action: Action::Block, reason };
            AgentPolicy { stopped_sessions: vec![stop], ..policy() }
        };
        let mut record = Record::new(&policy(), 0);
        record.apply_block(&block(1_000_000), now);
        assert_eq!(record, Record::new(&policy(), 0), "a block that is over");
        record.apply_block(&block(1_030_000), now);
        assert_eq!((record.blocked_for_seconds(5_000), record.blocks), (30, 1));
        record.apply_block(&block(1_030_000), Now { clock_ms: 1_001_000, steady_ms: 6_000 });
        assert_eq!((record.blocked_for_seconds(6_000), record.blocks), (29, 1), "told again");
        let mut clock_ahead = Record::new(&policy(), 0);
        clock_ahead.apply_block(&block(u64::MAX), now);
        assert_eq!(clock_ahead.blocked_for_seconds(5_000), clock_ahead.retry_after_seconds);
        let details = Details::new(&block(1_030_000), &record, now);
        assert_eq!((details.reason.as_str(), details.stopped_sessions.len()), ("over 2 Envoys", 0));
    }

    #[test]
    fn a_local_kill_outlives_a_policy_of_its_generation_and_ends_with_the_next() {
        let killed = Record::new(&policy(), 0).killed();
        let same = Record::updated(Some(&killed), &AgentPolicy { kill_switch_window_size: 30, ..policy() }, 0);
        assert!(same.is_killed());
        assert_eq!(same.window_size, 30, "settings still arrive");
        let next = Record::updated(Some(&killed), &AgentPolicy { generation: 1, ..policy() }, 0);
        assert!(next.active);
        assert_eq!(next.deactivated_by, None);
    }

    #[test]
    fn a_manual_deactivation_is_undone_by_a_policy_of_its_generation() {
        let off = AgentPolicy { active: false, deactivated_by: Some(DeactivatedBy::Manual), ..policy() };
        let record = Record::updated(Some(&Record::new(&off, 0)), &policy(), 0);
        assert!(record.active);
        assert_eq!(record.deactivated_by, None);
    }

    #[test]
    fn a_block_ends_after_its_time_and_starts_a_fresh_window() {
        let record = Record::new(&policy(), 0);
        let blocked = record.blocked(1_000);
        for (now_ms, seconds) in [(1_000, 60), (60_999, 1), (61_000, 0)] {
            assert_eq!(blocked.blocked_for_seconds(now_ms), seconds, "{now_ms}");
        }
        assert_ne!(blocked.window_generation(), record.window_generation());
        assert_eq!(Record::updated(Some(&blocked), &policy(), 0).blocked_until_ms, 61_000);
    }

    #[test]
    fn records_round_trip_and_other_bytes_are_not_records() {
        let record = Record { blocks: 7, told_again_ms: 9, ..Record::new(&policy(), 3).blocked(5).killed() };
        let details = Details { reason: "the same input 6 times".to_owned(), ..Details::default() };
        assert_eq!(record.encode(&Details::default()).len(), Record::BYTES);
        let bytes = record.encode(&details);
        let value = Value::decode(&bytes).unwrap();
        assert_eq!((value.record, value.details(), value.window), (record, details, &[][..]));
        for len in 0..bytes.len() {
            assert!(Value::decode(&bytes[..len]).is_none(), "{len} bytes");
        }
        assert!(Value::decode(&[9; 80]).is_none(), "another version");
    }

    fn stop(until_ms: u64, releases: u32) -> StoppedSession {
        let key = "00000000000000aa".to_owned();
        StoppedSession { key, until_ms, releases, action: Action::Deactivate, reason: String::new() }
    }

    #[test]
    fn a_local_stop_of_a_conversation_outlives_policies_until_it_is_let_go_on() {
        let cases = [
            ("the sidecar does not know it yet", vec![], 50),
            ("the sidecar knows it", vec![stop(99, 0)], 99),
            ("it was let go on", vec![stop(0, 1)], 0),
            ("it was let go on before this stop", vec![stop(0, 0)], 50),
        ];
        for (name, stopped_sessions, until_ms) in cases {
            let before = Details { stopped_sessions: vec![stop(50, 0)], ..Details::default() };
            let policy = AgentPolicy { stopped_sessions, ..policy() };
            let after = before.updated(&policy, &Record::new(&policy, 0), Now { clock_ms: 49, steady_ms: 49 });
            assert_eq!(after.stop(0xAA).map(|stop| stop.until_ms), Some(until_ms), "{name}");
        }
        let before = Details { stopped_sessions: vec![stop(50, 0)], ..Details::default() };
        let now = Now { clock_ms: 50, steady_ms: 50 };
        assert_eq!(before.updated(&policy(), &Record::new(&policy(), 0), now), Details::default(), "its time is up");
    }

    #[test]
    fn the_stop_of_a_policy_lasts_as_long_as_the_sidecar_says_but_never_longer_than_the_settings_say() {
        let (hour, clock_ms, steady_ms) = (3_600_000, 1_700_000_000_000, 5_000_000);
        let cases = [
            ("half of its time is left", clock_ms + hour / 2, steady_ms + hour / 2),
            ("the clock of the sidecar is ahead by a day", clock_ms + 25 * hour, steady_ms + hour),
            ("its time is up", clock_ms - 1, 0),
            ("it was let go on", 0, 0),
        ];
        for (name, told_ms, until_ms) in cases {
            let policy = AgentPolicy { stopped_sessions: vec![stop(told_ms, 0)], ..policy() };
            let details = Details::new(&policy, &Record::new(&policy, 0), Now { clock_ms, steady_ms });
            assert_eq!(details.stop(0xAA).map(|stop| stop.until_ms), Some(until_ms), "{name}");
        }
    }

    #[test]
    fn the_number_of_stopped_conversations_is_bounded() {
        let mut details = Details::default();
        for key in 0..200 {
            details.add_stop(StoppedSession { key: session_key(key), ..stop(50, 0) });
        }
        assert_eq!(details.stopped_sessions.len(), MAX_STOPPED_SESSIONS as usize);
        assert!(details.stop(199).is_some() && details.stop(0).is_none());
    }
}

#[cfg(test)]
mod properties;
