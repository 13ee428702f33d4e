//! What time it is, passed in rather than asked for, so that a test sets it; and how a time is written.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::Millis;

/// Says what time it is.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The machine's clock.
pub fn system_clock() -> Clock {
    Arc::new(|| to_millis(SystemTime::now()))
}

fn to_millis(time: SystemTime) -> Millis {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since_1970.as_millis()).unwrap_or(Millis::MAX)
}

/// The last moment that RFC 3339 can write: the end of the year 9999.
const LAST: Millis = 253_402_300_799_999;

/// A time as RFC 3339, in UTC with milliseconds.
pub fn rfc3339(at_ms: Millis) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(at_ms.min(LAST));
    humantime::format_rfc3339_millis(time).to_string()
}

/// Reads a time as RFC 3339 in UTC; the date alone will do.
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    let midnight;
    let text = if text.len() == "2024-01-15".len() {
        midnight = format!("{text}T00:00:00Z");
        &midnight
    } else {
        text
    };
    humantime::parse_rfc3339_weak(text).ok().map(to_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_being_written_and_read() {
        for at_ms in [0, 1, 1_705_314_600_123, LAST] {
            assert_eq!(parse_rfc3339(&rfc3339(at_ms)), Some(at_ms), "{at_ms}");
        }
    }

    #[test]
    fn a_date_alone_is_its_midnight() {
        assert_eq!(parse_rfc3339("2024-01-15").map(rfc3339).as_deref(), Some("2024-01-15T00:00:00.000Z"));
    }

    #[test]
    fn a_time_beyond_the_calendar_is_its_end_and_not_a_panic() {
        assert_eq!(rfc3339(Millis::MAX), "9999-12-31T23:59:59.999Z");
    }
}
