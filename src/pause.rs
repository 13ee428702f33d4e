//! The pause of the whole fleet: while it lasts, loops are reported and nothing is stopped.
//!
//! Every answer of the sync says how long the pause still lasts, except that which only says that nothing has changed.
//! Shared data holds when the pause ends by this Envoy's own clock, so that it ends in time even if the sidecar cannot be
//! reached by then, and so that the clocks of both machines need not agree. The key is read only for a request or an answer
//! that shows a loop, and for a metric.

use crate::codec::Reader;
use crate::host::Host;
use crate::policy::MAX_PAUSE_SECONDS;
use crate::shared::PAUSE_KEY;

/// The length of the longest pause. An end that is further ahead is not one.
const MAX_MS: u64 = MAX_PAUSE_SECONDS as u64 * 1000;

/// Stores how long the pause still lasts, as the sidecar has just said. 0 means that there is none.
pub fn store(host: &impl Host, left_ms: u64) {
    let left_ms = left_ms.min(MAX_MS);
    let stored = host.get(PAUSE_KEY);
    let was_paused = is_in_force(host);
    let bytes = match left_ms {
        0 if stored.bytes.is_empty() => return,
        0 => Vec::new(),
        _ => (host.steady_ms() + left_ms).to_le_bytes().to_vec(),
    };
    // If another root was faster, it has stored an answer of the sidecar, too.
    let _ = host.set(PAUSE_KEY, &bytes, stored.version);
    if was_paused != (left_ms > 0) {
        let state = if was_paused { "no longer paused" } else { "paused: loops are reported, and nothing is stopped" };
        log::warn!("the kill switch is {state}");
    }
}

/// Whether the fleet is paused.
pub fn is_in_force(host: &impl Host) -> bool {
    let until_ms = Reader(&host.get(PAUSE_KEY).bytes).u64().unwrap_or_default();
    let left_ms = until_ms.saturating_sub(host.steady_ms());
    (1..=MAX_MS).contains(&left_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Fake;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn a_pause_ends_when_its_time_is_up_or_the_sidecar_says_so() {
        let host = Fake::new();
        assert!(!is_in_force(&host));
        store(&host, HOUR_MS);
        host.wait(HOUR_MS - 1);
        assert!(is_in_force(&host));
        host.wait(1);
        assert!(!is_in_force(&host));
        store(&host, HOUR_MS);
        store(&host, 0);
        assert!(!is_in_force(&host));
        assert_eq!(host.lines().len(), 3, "two beginnings and an end are logged: {:?}", host.lines());
    }

    #[test]
    fn a_pause_never_lasts_for_longer_than_the_longest_one() {
        let host = Fake::new();
        store(&host, u64::MAX);
        assert!(is_in_force(&host));
        host.wait(MAX_MS);
        assert!(!is_in_force(&host));
    }
}
