//! The clock, which is passed in so that tests can set it, and the text form of times.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize as _, Serializer};

use crate::model::Millis;

/// A function that returns the current time.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// Returns the clock of the machine.
pub fn system_clock() -> Clock {
    Arc::new(|| to_millis(SystemTime::now()))
}

/// How far the clocks of two replicas may differ, and how far a clock may be corrected, before times of another clock are
/// recognised as such.
///
/// A clock may be set back. A time in the past then seems to be ahead, and whatever was to happen some time after it would
/// be late by as much as the clock was set back. Therefore a deadline has passed if it is further ahead than it can have
/// been when it was set, which means that the time at which it was set is ahead by more than this.
pub(crate) const CLOCK_TOLERANCE_MS: Millis = 60_000;

/// Returns a time that a reporter stated. Zero means that it did not say, and a time that lies ahead comes from a clock that
/// is wrong: both become the present.
pub(crate) fn reported_ms(stated_ms: Millis, now_ms: Millis) -> Millis {
    if stated_ms == 0 { now_ms } else { stated_ms.min(now_ms) }
}

fn to_millis(time: SystemTime) -> Millis {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since_1970.as_millis()).unwrap_or(Millis::MAX)
}

/// The last time that RFC 3339 can express: the end of the year 9999.
const LAST: Millis = 253_402_300_799_999;

/// Formats a time as RFC 3339, in UTC with milliseconds.
pub fn rfc3339(at_ms: Millis) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(at_ms.min(LAST));
    humantime::format_rfc3339_millis(time).to_string()
}

/// Serialises a time that may be absent as [`rfc3339`] formats it.
pub(crate) fn serialize_rfc3339<S: Serializer>(
    at_ms: &(impl Into<Option<Millis>> + Copy),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*at_ms).into().map(rfc3339).serialize(serializer)
}

/// Parses a time in RFC 3339 format, in UTC. A date without a time stands for its midnight.
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    let is_date = text.len() == "2024-01-15".len();
    let parsed = if is_date {
        humantime::parse_rfc3339_weak(&format!("{text}T00:00:00Z"))
    } else {
        humantime::parse_rfc3339_weak(text)
    };
    parsed.ok().map(to_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_time_parses_to_the_same_time() {
        for at_ms in [0, 1, 1_705_314_600_123, LAST] {
            assert_eq!(parse_rfc3339(&rfc3339(at_ms)), Some(at_ms), "{at_ms}");
        }
    }

    #[test]
    fn a_date_without_a_time_is_its_midnight() {
        assert_eq!(parse_rfc3339("2024-01-15").map(rfc3339).as_deref(), Some("2024-01-15T00:00:00.000Z"));
    }

    #[test]
    fn a_time_after_the_year_9999_is_formatted_as_its_end() {
        assert_eq!(rfc3339(Millis::MAX), "9999-12-31T23:59:59.999Z");
    }
}
