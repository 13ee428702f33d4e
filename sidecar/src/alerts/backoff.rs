//! How long to wait before the next attempt of a delivery.
//!
//! The wait doubles with each failure, and is never shorter than the receiver asks for. It is partly random, so that the
//! notices that failed during one outage do not all arrive at the same moment after it.

use std::time::{Duration, UNIX_EPOCH};

use crate::model::Millis;

/// The wait after the first failure.
const FIRST_MS: Millis = 5_000;
/// The longest wait, unless the receiver asks for a longer one.
const LONGEST_MS: Millis = 30 * 60 * 1_000;
/// The longest wait that a receiver may ask for. It is much shorter than a notice is attempted, so that there are several
/// attempts whatever the receiver asks for.
const LONGEST_ASKED_S: u64 = 3_600;

/// Returns how long to wait after `failures` failures in a row. `jitter` 0 halves the wait, and 255 leaves all of it.
pub(super) fn wait_ms(failures: u32, retry_after_s: Option<u64>, jitter: u8) -> Millis {
    let doubled = FIRST_MS.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let full = doubled.min(LONGEST_MS);
    let own = full / 2 + full / 2 * Millis::from(jitter) / 255;
    own.max(retry_after_s.unwrap_or_default().min(LONGEST_ASKED_S) * 1_000)
}

/// Reads the value of a `Retry-After` header, a number of seconds or a date. Returns seconds from now.
pub(super) fn retry_after(value: &str, now_ms: Millis) -> Option<u64> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(seconds);
    }
    let at = httpdate::parse_http_date(value.trim()).ok()?;
    let now = UNIX_EPOCH + Duration::from_millis(now_ms);
    let wait = at.duration_since(now).unwrap_or_default();
    Some(u64::try_from(wait.as_millis()).ok()?.div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_half_an_hour_and_jitter_takes_at_most_half_of_it() {
        for (failures, longest) in
            [(1, 5_000), (2, 10_000), (3, 20_000), (9, 1_280_000), (10, 1_800_000), (99, 1_800_000)]
        {
            assert_eq!(wait_ms(failures, None, 255), longest, "after {failures}");
            assert_eq!(wait_ms(failures, None, 0), longest / 2, "after {failures}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_more_time_but_not_for_less() {
        assert_eq!(wait_ms(1, Some(120), 255), 120_000);
        assert_eq!(wait_ms(3, Some(1), 255), 20_000);
        assert_eq!(wait_ms(1, Some(u64::MAX), 0), 3_600_000);
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now_ms = 784_111_777_000;
        for (value, seconds) in [
            ("17", Some(17)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            // A date in the past.
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
        ] {
            assert_eq!(retry_after(value, now_ms), seconds, "{value}");
        }
    }
}
