//! The pause of the whole fleet: while it lasts, loops are reported and nothing is stopped.
//!
//! Every answer of the sync says how long the pause still lasts. What is kept in shared data is when it ends by this Envoy's
//! own clock, so that it ends in time even if the sidecar cannot be reached by then, and so that the clocks of both machines
//! need not agree. If this Envoy's clock is set back, the end is further ahead than the pause was long, and the pause counts
//! as over: a pause must not last for longer than somebody asked for. The key is read only when a loop was detected.

use crate::codec::Reader;
use crate::host::Host;
use crate::policy::MAX_PAUSE_SECONDS;
use crate::shared::PAUSE_KEY;

/// How much further ahead than the length of the pause its end may be, because clocks are adjusted all the time.
const TOLERANCE_MS: u64 = 60_000;

/// Stores how long the pause still lasts, as the sidecar has just said. 0 means that there is none.
pub fn store(host: &impl Host, left_ms: u64, now_ms: u64) {
    let left_ms = left_ms.min(u64::from(MAX_PAUSE_SECONDS) * 1000);
    let stored = host.get(PAUSE_KEY);
    let was_paused = !stored.bytes.is_empty();
    let bytes = match left_ms {
        0 if !was_paused => return,
        0 => Vec::new(),
        _ => [(now_ms + left_ms).to_le_bytes(), left_ms.to_le_bytes()].concat(),
    };
    // If another root was faster, it has stored an answer of the sidecar, too.
    let _ = host.set(PAUSE_KEY, &bytes, stored.version);
    if was_paused != (left_ms > 0) {
        let state = if was_paused { "no longer paused" } else { "paused: loops are reported, and nothing is stopped" };
        log::warn!("the kill switch is {state}");
    }
}

/// Whether the fleet is paused.
pub fn is_in_force(host: &impl Host, now_ms: u64) -> bool {
    let bytes = host.get(PAUSE_KEY).bytes;
    let mut reader = Reader(&bytes);
    let (Some(until_ms), Some(length_ms)) = (reader.u64(), reader.u64()) else { return false };
    now_ms < until_ms && until_ms - now_ms <= length_ms + TOLERANCE_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Fake;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn a_pause_ends_when_its_time_is_up_or_the_sidecar_says_so() {
        let host = Fake::new();
        let now_ms = host.now_ms();
        assert!(!is_in_force(&host, now_ms));
        store(&host, HOUR_MS, now_ms);
        assert!(is_in_force(&host, now_ms + HOUR_MS - 1));
        assert!(!is_in_force(&host, now_ms + HOUR_MS));
        store(&host, 0, now_ms + 1);
        assert!(!is_in_force(&host, now_ms + 1));
        assert_eq!(host.lines().len(), 2, "both changes are logged: {:?}", host.lines());
    }

    #[test]
    fn a_pause_is_over_if_the_clock_was_set_back_or_forward_by_more_than_its_length() {
        let host = Fake::new();
        let now_ms = host.now_ms();
        store(&host, HOUR_MS, now_ms);
        assert!(is_in_force(&host, now_ms - 1_000), "clocks are adjusted by small amounts");
        assert!(!is_in_force(&host, now_ms - HOUR_MS));
        assert!(!is_in_force(&host, now_ms + 2 * HOUR_MS));
    }

    #[test]
    fn a_pause_never_lasts_for_longer_than_the_longest_one() {
        let host = Fake::new();
        let now_ms = host.now_ms();
        store(&host, u64::MAX, now_ms);
        assert!(is_in_force(&host, now_ms));
        assert!(!is_in_force(&host, now_ms + u64::from(MAX_PAUSE_SECONDS) * 1000));
    }
}
