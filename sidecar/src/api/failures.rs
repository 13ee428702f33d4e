//! A limit on failed authentications per client address.
//!
//! Tokens have 256 random bits and cannot be guessed at any rate. For them the limit only keeps a stranger from filling
//! the log and using up the processor, and a valid token is always accepted, so nobody can lock out the Envoys behind the
//! same address. The dashboard's password is weaker. An attempt to sign in with it counts before the password is checked,
//! so that guesses that are made at the same time are limited as well, and is taken back if the password was right.
//!
//! The host part of an IPv6 address is chosen by the client, so addresses count by their network, the first 64 bits.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::{ConnectInfo, Request};
use tokio::time::{Duration, Instant};

/// How many failures an address may have within any [`PERIOD`].
const ALLOWED: usize = 10;
const PERIOD: Duration = Duration::from_secs(60);
/// How many addresses are remembered. When there are more, all counts start again at zero.
const MAX_ADDRESSES: usize = 10_000;

type Counts = HashMap<IpAddr, Attempts>;

/// For each address, its failures within the last [`PERIOD`].
#[derive(Default)]
pub(crate) struct Failures(Mutex<Counts>);

/// The failures of one address. The time of each is kept, because a count that starts again every minute would allow twice
/// as many around the end of a minute.
#[derive(Default)]
struct Attempts {
    /// When they were made, oldest first.
    times: VecDeque<Instant>,
    /// Whether an attempt was refused since the latest one that counted.
    is_refusing: bool,
}

/// An address has used up its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// The seconds until it has another one.
    pub seconds: u64,
    /// Whether this is the first attempt that was refused since the latest one that counted. Only this one is logged.
    pub is_first: bool,
}

impl TooMany {
    /// Writes to the log that attempts of this address are refused. Does nothing if that was said before.
    pub(crate) fn log(self, from: IpAddr) {
        if self.is_first {
            let seconds = self.seconds;
            tracing::warn!(%from, seconds, "too many failed authentications: further ones are refused unchecked");
        }
    }
}

impl Failures {
    /// Counts an attempt that has failed, or whose outcome is not known yet. If the address has used up its attempts, this
    /// one does not count.
    pub(crate) fn count(&self, from: IpAddr, now: Instant) -> Result<(), TooMany> {
        let mut counts = self.counts();
        if counts.len() >= MAX_ADDRESSES {
            counts.retain(|_, attempts| attempts.times.back().is_some_and(|latest| is_recent(*latest, now)));
        }
        if counts.len() >= MAX_ADDRESSES {
            counts.clear();
        }
        let Attempts { times, is_refusing } = counts.entry(network(from)).or_default();
        while times.front().is_some_and(|oldest| !is_recent(*oldest, now)) {
            times.pop_front();
        }
        if let Some(oldest) = times.front().filter(|_| times.len() >= ALLOWED) {
            let left = PERIOD.saturating_sub(now.saturating_duration_since(*oldest));
            // Rounded up, so that the next attempt counts if it comes when this says.
            let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            return Err(TooMany { seconds, is_first: !std::mem::replace(is_refusing, true) });
        }
        times.push_back(now);
        *is_refusing = false;
        Ok(())
    }

    /// Takes back an attempt that was counted at this moment and has not failed.
    pub(crate) fn take_back(&self, from: IpAddr, counted: Instant) {
        if let Some(Attempts { times, .. }) = self.counts().get_mut(&network(from)) {
            let position = times.iter().position(|time| *time == counted);
            position.map(|position| times.remove(position));
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(time: Instant, now: Instant) -> bool {
    now.saturating_duration_since(time) < PERIOD
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

    fn too_many(seconds: u64, is_first: bool) -> Result<(), TooMany> {
        Err(TooMany { seconds, is_first })
    }

    #[test]
    fn an_address_that_fails_too_often_must_wait_until_its_oldest_failure_is_a_minute_old() {
        let failures = Failures::default();
        let (client, other): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        for attempt in 0..ALLOWED {
            assert_eq!(failures.count(client, at(attempt as f64)), Ok(()), "attempt {attempt}");
        }
        assert_eq!(failures.count(client, at(20.0)), too_many(40, true));
        assert_eq!(failures.count(client, at(20.5)), too_many(40, false), "rounded up");
        assert_eq!(failures.count(other, at(20.0)), Ok(()), "another address is not affected");
        failures.take_back(client, at(9.0));
        assert_eq!(failures.count(client, at(21.0)), Ok(()), "an attempt that succeeded does not count");
        assert_eq!(failures.count(client, at(21.0)), too_many(39, true));
        assert_eq!(failures.count(client, at(60.0)), Ok(()), "the oldest one is a minute old");
        assert_eq!(failures.count(client, at(60.0)), too_many(1, true), "the others are not");
        assert_eq!(failures.count(client, at(200.0)), Ok(()));
    }

    #[test]
    fn no_minute_has_more_than_ten_failures_however_they_are_spread() {
        let failures = Failures::default();
        let start = Instant::now();
        // One at the beginning, then as many as possible around the end of the first minute, and every half second after.
        let tries = [0.0]
            .into_iter()
            .chain((0..40).map(|n| 58.0 + f64::from(n) / 10.0))
            .chain((0..400).map(|n| 62.0 + f64::from(n) / 2.0));
        let tries = tries.map(|seconds| start + Duration::from_secs_f64(seconds));
        let counted: Vec<_> = tries.filter(|time| failures.count([127, 0, 0, 1].into(), *time).is_ok()).collect();
        let most = counted
            .iter()
            .map(|end| counted.iter().filter(|time| *time <= end && is_recent(**time, *end)).count())
            .max();
        assert_eq!(most, Some(ALLOWED));
        assert!(counted.len() >= 4 * ALLOWED, "they are allowed again after a minute: {}", counted.len());
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
            let _ = failures.count(Ipv4Addr::from_bits(number).into(), start);
        }
        let guesser: IpAddr = [192, 0, 2, 1].into();
        let later = start + PERIOD;
        for _ in 0..ALLOWED {
            assert_eq!(failures.count(guesser, later), Ok(()));
        }
        assert_eq!(failures.count([192, 0, 2, 2].into(), later), Ok(()));
        assert_eq!(failures.count(guesser, later), too_many(60, true), "it is still known");
    }
}
