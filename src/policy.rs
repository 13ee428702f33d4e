//! The settings of an agent's policy: defaults, bounds, and errors that name the field.
//!
//! The sidecar refuses settings that are out of bounds when a person sets them. The filter checks again when a policy
//! arrives, because a policy that can never trip looks like protection and is none.

use std::fmt;

/// How many calls are looked at, the current one included, unless the policy says otherwise.
pub const DEFAULT_WINDOW_SIZE: u32 = 20;
/// The score that must be exceeded, unless the policy says otherwise.
pub const DEFAULT_THRESHOLD: f64 = 10.0;
/// How long `action: block` refuses requests, unless the policy says otherwise.
pub const DEFAULT_RETRY_AFTER_SECONDS: u32 = 60;
/// The smallest window: a call can only repeat an earlier one.
pub const MIN_WINDOW_SIZE: u32 = 2;
/// The largest window, which bounds the shared data of one agent.
pub const MAX_WINDOW_SIZE: u32 = 100;
/// The longest `retry_after_seconds`: one day.
pub const MAX_RETRY_AFTER_SECONDS: u32 = 86_400;
/// After how many seconds without a call a run is over, unless the policy says otherwise.
pub const DEFAULT_IDLE_RESET_SECONDS: u32 = 120;
/// The longest `idle_reset_seconds`: one day.
pub const MAX_IDLE_RESET_SECONDS: u32 = 86_400;
/// How long a stopped conversation is refused, unless the policy says otherwise.
pub const DEFAULT_SESSION_STOP_SECONDS: u32 = 3_600;
/// The longest `session_stop_seconds`: one week.
pub const MAX_SESSION_STOP_SECONDS: u32 = 604_800;
/// How many conversations must be stopped within an hour for the agent to be deactivated, unless the policy says otherwise.
pub const DEFAULT_ESCALATE_AFTER: u32 = 5;
/// The largest `escalate_after`, which is also how many stopped conversations of one agent an Envoy remembers.
pub const MAX_STOPPED_SESSIONS: u32 = 64;
/// How many tools of an agent can have a rule.
pub const MAX_TOOLS: usize = 32;
/// The longest name of a tool that can have a rule, in characters.
pub const MAX_TOOL_NAME: usize = 128;
/// The smallest number of times from which the calls of a tool can be counted: one call repeats nothing.
pub const MIN_TOOL_COUNT: u32 = 2;
/// The largest number of times from which the calls of a tool can be counted. It must also fit into the agent's window.
pub const MAX_TOOL_COUNT: u32 = MAX_WINDOW_SIZE;

/// How long the fleet is paused, unless somebody says otherwise.
pub const DEFAULT_PAUSE_SECONDS: u32 = 3_600;
/// The longest pause: one week.
pub const MAX_PAUSE_SECONDS: u32 = 604_800;

/// A setting is out of bounds. The message names the field, the value and the bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingError {
    /// `kill_switch_window_size` is out of bounds.
    WindowSize(f64),
    /// `kill_switch_threshold` is not above 0, or not a number.
    Threshold(f64),
    /// `kill_switch_threshold` is at or above what the window can reach.
    Unreachable {
        /// The threshold that was given.
        threshold: f64,
        /// The window size that it goes with.
        window_size: u32,
    },
    /// A whole number is out of bounds.
    Whole {
        /// The name of the field.
        field: &'static str,
        /// The number that was given.
        given: f64,
        /// The smallest number that is allowed.
        min: u32,
        /// The largest number that is allowed.
        max: u32,
    },
}

impl SettingError {
    /// Returns the name of the field to change.
    pub fn field(&self) -> &'static str {
        match self {
            Self::WindowSize(_) => "kill_switch_window_size",
            Self::Threshold(_) | Self::Unreachable { .. } => "kill_switch_threshold",
            Self::Whole { field, .. } => field,
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
            Self::Whole { given, min, max, .. } => {
                write!(f, "{field} ({given}) must be a whole number from {min} to {max}")
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// Returns the highest score that a window of this size can reach, which is when every past call repeats the current
/// one in every respect. The latest answer is not compared with itself, so it has one answer fewer to match.
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
    check_whole("retry_after_seconds", seconds, 1, MAX_RETRY_AFTER_SECONDS)
}

/// Checks after how long a silence a run is over.
pub fn check_idle_reset(seconds: f64) -> Result<u32, SettingError> {
    check_whole("idle_reset_seconds", seconds, 0, MAX_IDLE_RESET_SECONDS)
}

/// Checks how long a stopped conversation is refused.
pub fn check_session_stop(seconds: f64) -> Result<u32, SettingError> {
    check_whole("session_stop_seconds", seconds, 1, MAX_SESSION_STOP_SECONDS)
}

/// Checks after how many stopped conversations an agent is deactivated.
pub fn check_escalate_after(conversations: f64) -> Result<u32, SettingError> {
    check_whole("escalate_after", conversations, 0, MAX_STOPPED_SESSIONS)
}

/// Checks how long the fleet is paused.
pub fn check_pause(seconds: f64) -> Result<u32, SettingError> {
    check_whole("for_seconds", seconds, 1, MAX_PAUSE_SECONDS)
}

fn check_whole(field: &'static str, given: f64, min: u32, max: u32) -> Result<u32, SettingError> {
    if given.fract() != 0.0 || !(f64::from(min)..=f64::from(max)).contains(&given) {
        return Err(SettingError::Whole { field, given, min, max });
    }
    Ok(given as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let too_large = check_session_stop(604_801.0).unwrap_err();
        assert_eq!(too_large.to_string(), "session_stop_seconds (604801) must be a whole number from 1 to 604800");
        assert_eq!(check_retry_after(0.0).unwrap_err().field(), "retry_after_seconds");
        assert_eq!((check_idle_reset(0.0), check_escalate_after(0.0)), (Ok(0), Ok(0)), "0 means never");
    }
}
