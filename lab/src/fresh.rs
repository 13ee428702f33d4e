//! Values that differ in every answer: ids, random padding and the time of day.
//!
//! A real service never sends the same envelope twice, and a detector that hashed envelopes would never see a loop.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns `prefix` followed by `length` random letters and digits: `chatcmpl-9sF3...`.
pub fn id(prefix: &str, length: usize) -> String {
    prefix.chars().chain((0..length).map(|_| fastrand::alphanumeric())).collect()
}

/// Returns a version 4 UUID.
pub fn uuid() -> String {
    let (high, low) = (fastrand::u64(..), fastrand::u64(..));
    let (time_low, time_mid, time_high) = (high >> 32, (high >> 16) & 0xFFFF, high & 0xFFF);
    let (variant, node) = ((low >> 48) & 0x3FFF | 0x8000, low & 0xFFFF_FFFF_FFFF);
    format!("{time_low:08x}-{time_mid:04x}-4{time_high:03x}-{variant:04x}-{node:012x}")
}

/// Returns the padding of 4 to 15 characters that OpenAI adds to each event, against traffic analysis.
pub fn obfuscation() -> String {
    id("", fastrand::usize(4..16))
}

/// Returns the seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the present time, as `2025-06-01T12:34:56.123456789Z`.
pub fn rfc3339() -> String {
    humantime::format_rfc3339_nanos(SystemTime::now()).to_string()
}

/// Returns the given second since 1970, as `2025-06-01T12:34:56Z`.
pub fn rfc3339_at(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
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
}
