//! An agent's record in shared data: its policy, what this Envoy has done about it since, and its window of recent calls.
//!
//! All of it is one value under one key, so that a request costs one read. The headers of a request read the record, and
//! its body is scored on what the headers read, unless another worker has written the record in the meantime. In that case
//! the compare-and-swap fails, the record is read again, and everything is decided on the new value. A request that was
//! held while its agent was killed, deactivated or blocked is therefore refused.
//!
//! A window belongs to one *generation* of the policy. Activating an agent increases the generation, and a window of
//! another generation counts as empty. That is how an activation clears the window on every worker without deleting
//! anything. The generation always comes from the record that is being written, so a request from before an activation
//! cannot overwrite the window after it.
//!
//! Sessions have windows under keys of their own. For these, the policy is read once more when the body arrives.

use crate::codec::Reader;
use crate::detect::progress::Rules;
use crate::detect::score::{Score, Scorer};
use crate::detect::verdict::{Verdict, decide};
use crate::detect::window::{Call, Sequence, Window};
use crate::host::{Host, SharedValue};
use crate::policy::{DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE, MAX_RETRY_AFTER_SECONDS, check_settings};
use crate::shared::{agent_key, agent_of, session_key, update, update_from, update_persistently};
use crate::turn::{Answer, Turn};
use crate::wire::{Action, AgentPolicy, Counting, DeactivatedBy};

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
    /// Until when requests are refused, in milliseconds since 1970.
    pub blocked_until_ms: u64,
    /// How often the agent was blocked. Each block starts a fresh window.
    pub blocks: u32,
}

/// What a record says about the agent's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The agent is inactive, and every request is refused.
    Inactive {
        /// Who deactivated it, if known.
        by: Option<DeactivatedBy>,
    },
    /// The agent is blocked, and requests are refused for a while.
    Blocked {
        /// How long requests are still refused.
        retry_after_seconds: u32,
    },
    /// The kill switch is off, and requests pass.
    Off,
    /// Requests are scored.
    Guarded,
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
            blocked_until_ms: 0,
            blocks: 0,
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
        Self { blocked_until_ms: until, ..self.with_fresh_window() }
    }

    /// Returns the record with a window generation that no existing window has.
    fn with_fresh_window(&self) -> Self {
        Self { blocks: self.blocks.wrapping_add(1), ..*self }
    }

    /// Whether the kill switch deactivated the agent.
    pub fn is_killed(&self) -> bool {
        !self.active && self.deactivated_by == Some(DeactivatedBy::KillSwitch)
    }

    /// Returns how many more seconds the agent is blocked, rounded up, or 0 if it is not blocked.
    pub fn blocked_for_seconds(&self, now_ms: u64) -> u32 {
        u32::try_from(self.blocked_until_ms.saturating_sub(now_ms).div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// Returns what the record says about a request. The clock is read only if the agent was ever blocked.
    pub fn standing(&self, now_ms: impl FnOnce() -> u64) -> Standing {
        if !self.active {
            return Standing::Inactive { by: self.deactivated_by };
        }
        let blocked_for = if self.blocked_until_ms == 0 { 0 } else { self.blocked_for_seconds(now_ms()) };
        match blocked_for {
            0 if self.enabled => Standing::Guarded,
            0 => Standing::Off,
            seconds => Standing::Blocked { retry_after_seconds: seconds },
        }
    }

    /// Identifies the window that belongs to this record. Changes with every activation and every block.
    pub fn window_generation(&self) -> u64 {
        self.generation.wrapping_shl(16) | u64::from(self.blocks & 0xFFFF)
    }

    fn window(&self, bytes: &[u8]) -> Window {
        Window::decode(bytes, self.window_generation(), self.counting)
    }

    /// Returns the scorer for calls of this agent.
    pub fn scorer(&self) -> Scorer {
        Scorer { window_size: self.window_size, counting: self.counting, rules: Rules::default() }
    }

    /// Scores a call against the window in these bytes. Returns the window with the call added.
    fn score(&self, window: &[u8], call: Call) -> (Window, Scored) {
        let mut window = self.window(window);
        let (score, sequence) = self.scorer().score(&mut window, call);
        let verdict = decide(&score, self.threshold, self.action);
        let evidence = (verdict != Verdict::Allow).then(|| window.clone());
        (window, Scored { verdict, score, sequence, window: evidence })
    }
}

/// One agent, as a request holds on to it.
#[derive(Clone, Debug)]
pub struct Agent {
    key: String,
    /// The slot of the request's session, if sessions are told apart.
    session_slot: Option<u32>,
    /// The record on which the latest decision was made.
    pub record: Record,
    /// The value that the record was decoded from, window included. Taken when the call is scored.
    value: SharedValue,
}

/// A call that was scored and added to its window.
#[derive(Clone, Debug)]
pub struct Scored {
    /// What to do about the call.
    pub verdict: Verdict,
    /// The score with its contributions.
    pub score: Score,
    /// The number by which the answer finds the call.
    pub sequence: Sequence,
    /// The window, if the verdict is not to allow the call. The report explains the verdict with it.
    pub window: Option<Window>,
}

/// Why a call was not scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotScored {
    /// The policy no longer asks for it.
    Standing(Standing),
    /// The agent was deleted.
    Deleted,
    /// Other workers wrote the window every time this one tried to.
    Contended,
}

/// The result of [`Agent::trip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// This worker stopped the agent, and must report it.
    Stopped,
    /// Another worker stopped the agent first.
    AlreadyStopped,
    /// The agent was activated or deleted in the meantime, so the verdict no longer applies.
    Outdated,
}

impl Agent {
    /// Reads the record of an agent. Returns `None` if there is none, or if it is older than `round`.
    pub fn read(host: &impl Host, agent_id: &str, round: u32) -> Option<Self> {
        let key = agent_key(agent_id);
        let value = host.get(&key);
        let record = Record::decode(&value.bytes).filter(|record| record.round >= round)?;
        Some(Self { key, session_slot: None, record, value })
    }

    /// The agent's id.
    pub fn id(&self) -> &str {
        agent_of(&self.key)
    }

    /// Makes the request use the window of a session's slot.
    pub fn use_session_slot(&mut self, slot: u32) {
        self.session_slot = Some(slot);
    }

    /// Scores a call and adds it to its window.
    pub fn score(&mut self, host: &impl Host, turn: &Turn, now_ms: u64) -> Result<Scored, NotScored> {
        let call = Call { at_ms: now_ms, input: turn.input, tools: turn.tools, ..Call::default() };
        let guarded = |bytes: &[u8]| {
            let record = Record::decode(bytes).ok_or(NotScored::Deleted)?;
            match record.standing(|| now_ms) {
                Standing::Guarded => Ok(record),
                standing => Err(NotScored::Standing(standing)),
            }
        };
        let scored = match self.session_slot {
            None => update_from(host, &self.key, std::mem::take(&mut self.value), |value| {
                let (policy, window) = value.bytes.split_at(value.bytes.len().min(Record::BYTES));
                match guarded(policy) {
                    Ok(record) => {
                        self.record = record;
                        let (window, scored) = record.score(window, call);
                        (Some([policy, window.bytes()].concat()), Ok(scored))
                    }
                    Err(reason) => (None, Err(reason)),
                }
            }),
            Some(slot) => {
                self.record = guarded(&host.get(&self.key).bytes)?;
                update(host, &session_key(self.id(), slot), |value| {
                    let (window, scored) = self.record.score(&value.bytes, call);
                    (Some(window.into_bytes()), Ok(scored))
                })
            }
        };
        scored.unwrap_or(Err(NotScored::Contended))
    }

    /// Attaches an answer to its call. Does nothing if the window is of another generation by now, or if the call has left
    /// it.
    pub fn attach_answer(&self, host: &impl Host, sequence: Sequence, answer: Answer) {
        let session_key = self.session_slot.map(|slot| session_key(self.id(), slot));
        let (key, start) = session_key.as_deref().map_or((self.key.as_str(), Record::BYTES), |key| (key, 0));
        update(host, key, |value| {
            let (policy, window) = value.bytes.split_at(value.bytes.len().min(start));
            let mut window = self.record.window(window);
            let found = self.record.scorer().attach_answer(&mut window, sequence, answer);
            (found.then(|| [policy, window.bytes()].concat()), ())
        });
    }

    /// Acts on a loop, unless another worker has done so or the policy has changed in the meantime.
    pub fn trip(&self, host: &impl Host, verdict: Verdict, now_ms: u64) -> Trip {
        let trip = update(host, &self.key, |value| {
            let Some(now) = Record::decode(&value.bytes) else { return (None, Trip::Outdated) };
            if now.generation != self.record.generation {
                return (None, Trip::Outdated);
            }
            if !now.active || now.blocks != self.record.blocks {
                return (None, Trip::AlreadyStopped);
            }
            let record = match verdict {
                Verdict::Allow => return (None, Trip::Outdated),
                Verdict::Kill => now.killed(),
                Verdict::Block => now.blocked(now_ms),
                // A fresh window, so that one loop is reported once.
                Verdict::WouldKill => now.with_fresh_window(),
            };
            (Some(record.replace_in(&value.bytes)), Trip::Stopped)
        });
        trip.unwrap_or(Trip::AlreadyStopped)
    }
}

/// Stores a policy that has arrived from the sidecar. Returns `None` if other workers wrote the record all the time.
pub fn store_policy(host: &impl Host, policy: &AgentPolicy, round: u32) -> Option<()> {
    update_persistently(host, &agent_key(&policy.agent_id), |value| {
        let before = Record::decode(&value.bytes);
        let record = Record::updated(before.as_ref(), policy, round);
        (before != Some(record)).then(|| record.replace_in(&value.bytes))
    })
}

/// Forgets an agent that the sidecar has deleted. Returns `None` if other workers wrote the record all the time.
pub fn delete(host: &impl Host, agent_id: &str) -> Option<()> {
    update_persistently(host, &agent_key(agent_id), |value| (!value.bytes.is_empty()).then(Vec::new))
}

/// The version of the encoding below. Bytes of any other version are not a record.
const VERSION: u8 = 1;
const ACTIVE: u8 = 1;
const ENABLED: u8 = 2;
const BY_KILL_SWITCH: u8 = 4;
const MANUALLY: u8 = 8;

impl Record {
    /// The length of an encoded record. The window follows it.
    pub const BYTES: usize = 44;

    /// Encodes the record, without a window.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |flag: u8, on: bool| if on { flag } else { 0 };
        let flags = flag(ACTIVE, self.active)
            | flag(ENABLED, self.enabled)
            | flag(BY_KILL_SWITCH, self.deactivated_by == Some(DeactivatedBy::KillSwitch))
            | flag(MANUALLY, self.deactivated_by == Some(DeactivatedBy::Manual));
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(self.round.to_le_bytes());
        bytes.extend([VERSION, flags, self.action as u8, self.counting as u8]);
        bytes.extend(self.window_size.to_le_bytes());
        bytes.extend(self.retry_after_seconds.to_le_bytes());
        bytes.extend(self.blocks.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.threshold.to_le_bytes());
        bytes.extend(self.blocked_until_ms.to_le_bytes());
        bytes
    }

    /// Encodes the record together with the window that follows the record in `bytes`.
    fn replace_in(&self, bytes: &[u8]) -> Vec<u8> {
        [self.encode().as_slice(), bytes.get(Self::BYTES..).unwrap_or_default()].concat()
    }

    /// Decodes the record at the start of `bytes`. Returns `None` if they are too short, invalid or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
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
        let record = Record { blocks: 7, ..Record::new(&policy(), 3).blocked(5).killed() };
        let bytes = record.encode();
        assert_eq!(bytes.len(), Record::BYTES);
        assert_eq!(Record::decode(&bytes), Some(record));
        for len in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(Record::decode(&[9; 60]), None, "another version");
    }
}
