//! A limit on failed authentications, per address.
//!
//! Tokens carry 256 random bits: guessing one is hopeless at any rate, and this is no protection against it. It keeps a
//! stranger from filling the log and the processor with attempts. A valid token is never held up, so nobody can lock
//! out the Envoys behind the same address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use tokio::time::{Duration, Instant};

/// Failures of one address that are answered as such within [`PERIOD`].
const ALLOWED: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);
/// Addresses remembered; past it, everybody's count starts over.
const MAX_ADDRESSES: usize = 10_000;

/// Who failed how often.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Failures {
    /// Notes a failure; after too many, how many seconds are left until the next is looked at.
    pub(crate) fn note(&self, from: IpAddr, now: Instant) -> Option<u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_ADDRESSES {
            counts.clear();
        }
        let (since, count) = counts.entry(from).or_insert((now, 0));
        let elapsed = now.saturating_duration_since(*since);
        if elapsed >= PERIOD {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        (*count > ALLOWED).then(|| PERIOD.saturating_sub(elapsed).as_secs().max(1))
    }
}

impl Failures {
    /// Whether an address has failed too often, and for how many seconds that holds; nothing is counted.
    pub(crate) fn held_up(&self, from: IpAddr, now: Instant) -> Option<u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = counts.get(&from)?;
        let left = PERIOD.saturating_sub(now.saturating_duration_since(*since));
        (*count >= ALLOWED && !left.is_zero()).then(|| left.as_secs().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_failures_of_one_address_are_cut_off_until_the_period_is_over() {
        let failures = Failures::default();
        let (home, away): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let start = Instant::now();
        for attempt in 1..=ALLOWED {
            assert_eq!(failures.note(home, start), None, "attempt {attempt}");
        }
        assert_eq!(failures.note(home, start + Duration::from_secs(20)), Some(40));
        assert_eq!(failures.note(away, start), None, "another address is not affected");
        assert_eq!(failures.note(home, start + PERIOD), None, "the next period starts afresh");
    }
}
