//! A limit on failed authentications per client address.
//!
//! Tokens have 256 random bits and cannot be guessed at any rate. For them the limit only keeps a stranger from filling
//! the log and using up the processor, and a valid token is always accepted, so nobody can lock out the Envoys behind the
//! same address. The dashboard's password is weaker. An attempt to sign in with it counts before the password is checked,
//! so that guesses that are made at the same time are limited as well, and is taken back if the password was right.
//!
//! The host part of an IPv6 address is chosen by the client, so addresses count by their network, the first 64 bits.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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
    /// Counts an attempt that has failed, or whose outcome is not known yet. If the address has used up its attempts, this
    /// one does not count, and the seconds until the period ends are returned.
    pub(crate) fn count(&self, from: IpAddr, now: Instant) -> Option<u64> {
        let mut counts = self.counts();
        if counts.len() >= MAX_ADDRESSES {
            counts.retain(|_, (since, _)| now.saturating_duration_since(*since) < PERIOD);
        }
        if counts.len() >= MAX_ADDRESSES {
            counts.clear();
        }
        let (since, count) = counts.entry(network(from)).or_insert((now, 0));
        let elapsed = now.saturating_duration_since(*since);
        if elapsed >= PERIOD {
            (*since, *count) = (now, 0);
        }
        if *count >= ALLOWED {
            return Some(PERIOD.saturating_sub(elapsed).as_secs().max(1));
        }
        *count += 1;
        None
    }

    /// Takes back an attempt that was counted and has not failed.
    pub(crate) fn take_back(&self, from: IpAddr) {
        if let Some((_, count)) = self.counts().get_mut(&network(from)) {
            *count = count.saturating_sub(1);
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is counted as one client: an IPv4 address, or the first 64 bits of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// The address of the connection, as an extension of the request. Behind a proxy, it is the address of the proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub IpAddr);

/// Returns the address of the connection, whatever headers say about the client behind it.
pub(crate) fn peer_address(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or_else(|| client_address(request), |peer| peer.0.to_canonical())
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
            assert_eq!(failures.count(client, start), None, "attempt {attempt}");
        }
        assert_eq!(failures.count(client, start + Duration::from_secs(20)), Some(40));
        assert_eq!(failures.count(other, start), None, "another address is not affected");
        failures.take_back(client);
        assert_eq!(failures.count(client, start), None, "an attempt that succeeded does not count");
        assert_eq!(failures.count(client, start), Some(60));
        assert_eq!(failures.count(client, start + PERIOD), None, "the next period starts at zero");
    }

    #[test]
    fn ipv6_addresses_count_by_their_network() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
    }

    #[test]
    fn counts_of_past_periods_make_room_before_others_do() {
        let failures = Failures::default();
        let start = Instant::now();
        for number in 0..MAX_ADDRESSES as u32 - 1 {
            failures.count(Ipv4Addr::from_bits(number).into(), start);
        }
        let guesser: IpAddr = [192, 0, 2, 1].into();
        let later = start + PERIOD;
        for _ in 0..ALLOWED {
            assert_eq!(failures.count(guesser, later), None);
        }
        failures.count([192, 0, 2, 2].into(), later);
        assert_eq!(failures.count(guesser, later), Some(60), "it is still known");
    }
}
