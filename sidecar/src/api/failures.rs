//! A limit on failed authentications per client address.
//!
//! Tokens have 256 random bits and cannot be guessed at any rate. For them the limit only keeps a stranger from filling
//! the log and using up the processor, and a valid token is always accepted, so nobody can lock out the Envoys behind the
//! same address. The dashboard's password is weaker, so sign-in also asks [`Failures::wait_seconds`] before checking it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::{ConnectInfo, Request};
use tokio::time::{Duration, Instant};

/// How many failures an address may have within [`PERIOD`].
const ALLOWED: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);
/// How many addresses are remembered. When there are more, all counts start again at zero.
const MAX_ADDRESSES: usize = 10_000;

type Counts = HashMap<IpAddr, (Instant, u32)>;

/// For each address, when its current period began and how many failures it has had since.
#[derive(Default)]
pub(crate) struct Failures(Mutex<Counts>);

impl Failures {
    /// Counts a failure. Returns how many seconds are left of the period if the address has failed too often.
    pub(crate) fn record(&self, from: IpAddr, now: Instant) -> Option<u64> {
        let mut counts = self.counts();
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

    /// Returns how many seconds the address must wait before its next attempt, if it has used up its failures.
    pub(crate) fn wait_seconds(&self, from: IpAddr, now: Instant) -> Option<u64> {
        let counts = self.counts();
        let (since, count) = counts.get(&from)?;
        let left = PERIOD.saturating_sub(now.saturating_duration_since(*since));
        (*count >= ALLOWED && !left.is_zero()).then(|| left.as_secs().max(1))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address of the client. Requests that did not arrive on a socket count as coming from loopback.
pub(crate) fn client_address(request: &Request) -> IpAddr {
    let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
    info.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |info| info.0.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_too_often_must_wait_until_the_period_ends() {
        let failures = Failures::default();
        let (client, other): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let start = Instant::now();
        for attempt in 1..=ALLOWED {
            assert_eq!(failures.record(client, start), None, "attempt {attempt}");
        }
        assert_eq!(failures.record(client, start + Duration::from_secs(20)), Some(40));
        assert_eq!(failures.record(other, start), None, "another address is not affected");
        assert_eq!(failures.record(client, start + PERIOD), None, "the next period starts at zero");
    }
}
