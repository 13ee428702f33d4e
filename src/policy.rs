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
    /// `retry_after_seconds` is out of bounds.
    RetryAfter(f64),
}

impl SettingError {
    /// Returns the name of the field to change.
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
    if seconds.fract() != 0.0 || !(1.0..=f64::from(MAX_RETRY_AFTER_SECONDS)).contains(&seconds) {
        return Err(SettingError::RetryAfter(seconds));
    }
    Ok(seconds as u32)
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
        assert_eq!(check_retry_after(0.0).unwrap_err().field(), "retry_after_seconds");
    }
}
