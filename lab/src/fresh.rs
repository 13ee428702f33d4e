//! Values that differ in every answer: ids, noise and the time of day.
//!
//! A real service never sends the same envelope twice, and a detector that hashed envelopes would never see a loop. Not
//! random in any serious sense: a counter and the clock through a mixing function, which needs no dependency.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A number not seen before.
pub fn number() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let seed = SEED.get_or_init(|| RandomState::new().build_hasher().finish());
    mix(seed.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// The last step of SplitMix64: every input bit changes about half of the output bits.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// `prefix` and `length` letters and digits: `chatcmpl-9sF3...`.
pub fn id(prefix: &str, length: usize) -> String {
    let letters = (0..length).map(|_| char::from(ALPHABET[(number() % 62) as usize]));
    prefix.chars().chain(letters).collect()
}

/// A version 4 UUID.
pub fn uuid() -> String {
    let (a, b) = (number(), number());
    let (time_low, time_mid, time_high) = (a >> 32, (a >> 16) & 0xFFFF, a & 0xFFF);
    let (variant, node) = ((b >> 48) & 0x3FFF | 0x8000, b & 0xFFFF_FFFF_FFFF);
    format!("{time_low:08x}-{time_mid:04x}-4{time_high:03x}-{variant:04x}-{node:012x}")
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// Now, as `2025-06-01T12:34:56.123456789Z`.
pub fn rfc3339() -> String {
    let now = since_1970();
    rfc3339_at(now.as_secs(), now.subsec_nanos())
}

/// The given second since 1970, as `2025-06-01T12:34:56.000000000Z`.
pub fn rfc3339_at(seconds: u64, nanos: u32) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Year, month and day of a day since 1970. Counts in years that begin in March, so that the leap day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn since_1970() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_never_repeat_and_look_like_the_services_own() {
        let ids: HashSet<String> = (0..10_000).map(|_| id("call_", 24)).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.len() == 29 && id.is_ascii()));
        let uuid = uuid();
        assert_eq!((uuid.len(), uuid.matches('-').count(), &uuid[14..15]), (36, 4, "4"), "{uuid}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000000000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000000000Z"),
        ] {
            assert_eq!(rfc3339_at(seconds, 0), expected);
        }
    }
}
