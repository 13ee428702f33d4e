//! The policy of one agent: its defaults and bounds, and the bytes it is kept as in shared data.
//!
//! The sidecar refuses what is out of bounds when a person sets it; the filter checks again when it arrives, since a
//! policy that can never trip looks like protection and is none.

use std::fmt;

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
