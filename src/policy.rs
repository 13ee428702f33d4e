//! The policy of one agent: its defaults and bounds, and the bytes it is kept as in shared data.
//!
//! The sidecar refuses what is out of bounds when a person sets it; the filter checks again when it arrives, since a
//! policy that can never trip looks like protection and is none.

use std::fmt;

use crate::codec::Reader;
use crate::wire::{Action, AgentPolicy, Counting, DeactivatedBy};

/// Calls looked at, the current one included, unless the agent says otherwise.
pub const DEFAULT_WINDOW_SIZE: u32 = 20;
/// The score that must be exceeded, unless the agent says otherwise.
pub const DEFAULT_THRESHOLD: f64 = 10.0;
/// How long `action: block` refuses, unless the agent says otherwise.
pub const DEFAULT_RETRY_AFTER_SECONDS: u32 = 60;
/// The smallest window: a call can only repeat an earlier one.
pub const MIN_WINDOW_SIZE: u32 = 2;
/// The largest window: it bounds the shared data of one agent.
pub const MAX_WINDOW_SIZE: u32 = 100;
/// The longest `retry_after_seconds`: a day.
pub const MAX_RETRY_AFTER_SECONDS: u32 = 86_400;

/// What is wrong with a setting, in words that name the field and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingError {
    /// `kill_switch_window_size` is out of bounds.
    WindowSize(f64),
    /// `kill_switch_threshold` is not above 0, or not a number.
    Threshold(f64),
    /// `kill_switch_threshold` is at or above what the window can reach.
    Unreachable {
        /// The threshold asked for.
        threshold: f64,
        /// The window it must fit.
        window_size: u32,
    },
    /// `retry_after_seconds` is out of bounds.
    RetryAfter(f64),
}

impl SettingError {
    /// The field to change.
    pub fn field(&self) -> &'static str {
        match self {
            Self::WindowSize(_) => "kill_switch_window_size",
            Self::Threshold(_) | Self::Unreachable { .. } => "kill_switch_threshold",
            Self::RetryAfter(_) => "retry_after_seconds",
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field();
        match self {
            Self::WindowSize(given) => {
                write!(f, "{field} ({given}) must be a whole number from {MIN_WINDOW_SIZE} to {MAX_WINDOW_SIZE}")
            }
            Self::Threshold(given) => write!(f, "{field} ({given}) must be above 0"),
            Self::Unreachable { threshold, window_size } => write!(
                f,
                "{field} ({threshold}) must be below {}, the highest score a window of {window_size} can reach",
                highest_score(*window_size)
            ),
            Self::RetryAfter(given) => {
                write!(f, "{field} ({given}) must be a whole number from 1 to {MAX_RETRY_AFTER_SECONDS}")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// The highest score that a window of this size can reach: every past call repeats the current one in every respect.
/// The latest answer has one fewer to be compared with, itself aside.
pub fn highest_score(window_size: u32) -> f64 {
    let past = f64::from(window_size.saturating_sub(1));
    let past_answers = f64::from(window_size.saturating_sub(2));
    past * 1.0 + past_answers * 2.0 + past * 1.5
}

/// Checks a window size and a threshold together, since one bounds the other.
pub fn check_settings(window_size: f64, threshold: f64) -> Result<(u32, f64), SettingError> {
    let bounds = f64::from(MIN_WINDOW_SIZE)..=f64::from(MAX_WINDOW_SIZE);
    if window_size.fract() != 0.0 || !bounds.contains(&window_size) {
        return Err(SettingError::WindowSize(window_size));
    }
    if !(threshold.is_finite() && threshold > 0.0) {
        return Err(SettingError::Threshold(threshold));
    }
    let window_size = window_size as u32;
    if threshold >= highest_score(window_size) {
        return Err(SettingError::Unreachable { threshold, window_size });
    }
    Ok((window_size, threshold))
}

/// Checks how long `action: block` refuses.
pub fn check_retry_after(seconds: f64) -> Result<u32, SettingError> {
    if seconds.fract() != 0.0 || !(1.0..=f64::from(MAX_RETRY_AFTER_SECONDS)).contains(&seconds) {
        return Err(SettingError::RetryAfter(seconds));
    }
    Ok(seconds as u32)
}

/// Checks an agent id: 1 to 128 bytes of `[A-Za-z0-9._:@/-]`.
pub fn is_agent_id(id: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"._:@/-".contains(b);
    (1..=128).contains(&id.len()) && id.iter().all(allowed)
}

/// The policy of one agent as a request meets it: what the sidecar said last, and what this Envoy did since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Whether the agent may call at all.
    pub active: bool,
    /// Why it may not.
    pub deactivated_by: Option<DeactivatedBy>,
    /// The generation that this belongs to.
    pub generation: u64,
    /// Whether bodies are looked at.
    pub enabled: bool,
    /// Calls looked at, the current one included.
    pub window_size: u32,
    /// The score that must be exceeded.
    pub threshold: f64,
    /// What a detected loop leads to.
    pub action: Action,
    /// How repeats are counted.
    pub counting: Counting,
    /// With [`Action::Block`], how long requests are refused.
    pub retry_after_seconds: u32,
    /// Until when they are, in milliseconds since 1970.
    pub blocked_until_ms: u64,
    /// How often the agent was blocked: each time begins a fresh window.
    pub blocks: u32,
}

impl Record {
    /// What the sidecar says, out-of-bounds settings put back to their defaults.
    pub fn new(policy: &AgentPolicy) -> Self {
        let settings = check_settings(f64::from(policy.kill_switch_window_size), policy.kill_switch_threshold);
        let (window_size, threshold) = settings.unwrap_or((DEFAULT_WINDOW_SIZE, DEFAULT_THRESHOLD));
        Self {
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

    /// What the sidecar says, given what stood here before. A kill or a block of this Envoy outlives news of the same
    /// generation, since the sidecar may not know of it yet; only an activation, which raises the generation, ends it.
    pub fn updated(before: Option<&Self>, policy: &AgentPolicy) -> Self {
        let news = Self::new(policy);
        match before {
            Some(before) if before.generation == news.generation => {
                let killed = before.is_killed();
                Self {
                    active: news.active && !killed,
                    deactivated_by: news.deactivated_by.or(before.deactivated_by.filter(|_| killed)),
                    blocked_until_ms: before.blocked_until_ms,
                    blocks: before.blocks,
                    ..news
                }
            }
            _ => news,
        }
    }

    /// As it is once a loop was found and the agent deactivated.
    pub fn killed(&self) -> Self {
        Self { active: false, deactivated_by: Some(DeactivatedBy::KillSwitch), ..*self }
    }

    /// As it is once a loop was found and the agent blocked for a while.
    pub fn blocked(&self, now_ms: u64) -> Self {
        let until = now_ms.saturating_add(u64::from(self.retry_after_seconds) * 1000);
        Self { blocked_until_ms: until, blocks: self.blocks.wrapping_add(1), ..*self }
    }

    /// Whether the kill switch turned the agent off.
    pub fn is_killed(&self) -> bool {
        !self.active && self.deactivated_by == Some(DeactivatedBy::KillSwitch)
    }

    /// How many more seconds the agent is blocked, rounded up; 0 where it is not.
    pub fn blocked_for_seconds(&self, now_ms: u64) -> u32 {
        u32::try_from(self.blocked_until_ms.saturating_sub(now_ms).div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// What a window must match to be this record's: it changes with every activation and every block.
    pub fn window_generation(&self) -> u64 {
        self.generation.wrapping_shl(16) | u64::from(self.blocks & 0xFFFF)
    }
}

/// The version of the codec below. Any other is no record.
const VERSION: u8 = 1;
const ACTIVE: u8 = 1;
const ENABLED: u8 = 2;
const BY_KILL_SWITCH: u8 = 4;
const BY_HAND: u8 = 8;

impl Record {
    /// How many bytes are kept of it.
    pub const BYTES: usize = 40;

    /// The bytes to keep.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |flag: u8, on: bool| if on { flag } else { 0 };
        let flags = flag(ACTIVE, self.active)
            | flag(ENABLED, self.enabled)
            | flag(BY_KILL_SWITCH, self.deactivated_by == Some(DeactivatedBy::KillSwitch))
            | flag(BY_HAND, self.deactivated_by == Some(DeactivatedBy::Manual));
        let mut bytes = vec![VERSION, flags, self.action as u8, self.counting as u8];
        bytes.extend(self.window_size.to_le_bytes());
        bytes.extend(self.retry_after_seconds.to_le_bytes());
        bytes.extend(self.blocks.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.threshold.to_le_bytes());
        bytes.extend(self.blocked_until_ms.to_le_bytes());
        bytes
    }

    /// The record in these bytes; nothing where they are of another version or make no sense.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.byte()? != VERSION {
            return None;
        }
        let flags = reader.byte()?;
        let deactivated_by = match flags & (BY_KILL_SWITCH | BY_HAND) {
            BY_KILL_SWITCH => Some(DeactivatedBy::KillSwitch),
            BY_HAND => Some(DeactivatedBy::Manual),
            _ => None,
        };
        let action = reader.byte()?;
        let counting = reader.byte()?;
        Some(Self {
            active: flags & ACTIVE != 0,
            enabled: flags & ENABLED != 0,
            deactivated_by,
            action: *ACTIONS.get(usize::from(action))?,
            counting: Counting::from_code(counting)?,
            window_size: reader.u32()?,
            retry_after_seconds: reader.u32()?,
            blocks: reader.u32()?,
            generation: reader.u64()?,
            threshold: reader.f64()?,
            blocked_until_ms: reader.u64()?,
        })
    }
}

/// The actions by their code.
const ACTIONS: [Action; 3] = [Action::Deactivate, Action::Block, Action::Observe];

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> AgentPolicy {
        serde_json::from_str(r#"{"agent_id": "a", "active": true}"#).unwrap()
    }

    #[test]
    fn defaults_are_off_window_20_threshold_10() {
        let record = Record::new(&policy());
        assert!(!record.enabled);
        assert_eq!((record.window_size, record.threshold), (20, 10.0));
        assert_eq!((record.action, record.counting), (Action::Deactivate, Counting::Progress));
    }

    #[test]
    fn settings_out_of_bounds_are_refused_by_name() {
        let cases: [(f64, f64, &str); 9] = [
            (1.0, 10.0, "kill_switch_window_size (1) must be a whole number from 2 to 100"),
            (101.0, 10.0, "kill_switch_window_size (101) must be a whole number from 2 to 100"),
            (7.5, 10.0, "kill_switch_window_size (7.5) must be a whole number from 2 to 100"),
            (f64::NAN, 10.0, "kill_switch_window_size (NaN) must be a whole number from 2 to 100"),
            (20.0, 0.0, "kill_switch_threshold (0) must be above 0"),
            (20.0, -1.0, "kill_switch_threshold (-1) must be above 0"),
            (20.0, f64::NAN, "kill_switch_threshold (NaN) must be above 0"),
            (20.0, 83.5, "kill_switch_threshold (83.5) must be below 83.5, the highest score a window of 20 can reach"),
            (2.0, 10.0, "kill_switch_threshold (10) must be below 2.5, the highest score a window of 2 can reach"),
        ];
        for (window_size, threshold, message) in cases {
            let error = check_settings(window_size, threshold).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        assert_eq!(check_settings(2.0, 2.4), Ok((2, 2.4)));
        assert_eq!(check_settings(100.0, 400.0), Ok((100, 400.0)));
        assert_eq!(check_retry_after(0.0).unwrap_err().field(), "retry_after_seconds");
    }

    #[test]
    fn agent_ids_are_short_and_plain() {
        for id in ["a", "team/bot-7", "svc:a@b.c_d", &"x".repeat(128)] {
            assert!(is_agent_id(id.as_bytes()), "{id}");
        }
        for id in ["", "a b", "a\n", "é", "a\"b", &"x".repeat(129)] {
            assert!(!is_agent_id(id.as_bytes()), "{id}");
        }
    }

    #[test]
    fn a_local_kill_outlives_news_of_its_generation_and_ends_with_the_next() {
        let killed = Record::new(&policy()).killed();
        let same = Record::updated(Some(&killed), &AgentPolicy { kill_switch_window_size: 30, ..policy() });
        assert!(same.is_killed());
        assert_eq!(same.window_size, 30, "settings still arrive");
        let next = Record::updated(Some(&killed), &AgentPolicy { generation: 1, ..policy() });
        assert!(next.active);
        assert_eq!(next.deactivated_by, None);
    }

    #[test]
    fn a_manual_deactivation_is_undone_by_news_of_its_generation() {
        let off = AgentPolicy { active: false, deactivated_by: Some(DeactivatedBy::Manual), ..policy() };
        let record = Record::updated(Some(&Record::new(&off)), &policy());
        assert!(record.active);
        assert_eq!(record.deactivated_by, None);
    }

    #[test]
    fn a_block_ends_with_its_time_and_begins_a_fresh_window() {
        let record = Record::new(&policy());
        let blocked = record.blocked(1_000);
        assert_eq!(blocked.blocked_for_seconds(1_000), 60);
        assert_eq!(blocked.blocked_for_seconds(60_999), 1);
        assert_eq!(blocked.blocked_for_seconds(61_000), 0);
        assert_ne!(blocked.window_generation(), record.window_generation());
        assert_eq!(Record::updated(Some(&blocked), &policy()).blocked_until_ms, 61_000);
    }

    #[test]
    fn records_round_trip_and_other_bytes_are_none() {
        let record = Record { blocks: 7, ..Record::new(&policy()).blocked(5).killed() };
        let bytes = record.encode();
        assert_eq!(bytes.len(), Record::BYTES);
        assert_eq!(Record::decode(&bytes), Some(record));
        for len in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(Record::decode(&[9; 60]), None, "another version");
    }
}
