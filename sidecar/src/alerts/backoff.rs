//! When to try again: later each time, never quite regularly, and not before the receiver asks for it.
//!
//! Jitter keeps the notices of one outage from arriving in step when it ends.

use crate::model::Millis;

/// The wait after the first failure.
const FIRST_MS: Millis = 5_000;
/// The longest wait that is our own idea.
const LONGEST_MS: Millis = 30 * 60 * 1_000;
/// The longest wait that a receiver may ask for.
const LONGEST_ASKED_S: u64 = 24 * 3_600;

/// How long to wait after `failures` failures in a row. `jitter` is from 0 to 255: half the wait up to all of it.
pub(super) fn wait_ms(failures: u32, retry_after_s: Option<u64>, jitter: u8) -> Millis {
    let doubled = FIRST_MS.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let full = doubled.min(LONGEST_MS);
    let own = full / 2 + full / 2 * Millis::from(jitter) / 255;
    own.max(retry_after_s.unwrap_or_default().min(LONGEST_ASKED_S) * 1_000)
}

/// Seconds from a `Retry-After` header: a number, or a date to come.
pub(super) fn retry_after(value: &str, now_ms: Millis) -> Option<u64> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(seconds);
    }
    let at_ms = http_date(value.trim())?;
    Some(at_ms.saturating_sub(now_ms).div_ceil(1_000))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that senders may still use.
fn http_date(text: &str) -> Option<Millis> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.strip_suffix(" GMT")?.split_once(", ")?.1.split(' ');
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    crate::clock::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z"))
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
        assert_eq!(wait_ms(1, Some(u64::MAX), 0), 86_400_000);
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now_ms = 784_111_777_000;
        assert_eq!(retry_after("17", now_ms), Some(17));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:37 GMT", now_ms), Some(60));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now_ms), Some(0), "a date gone by");
        assert_eq!(retry_after("soon", now_ms), None);
    }
}
