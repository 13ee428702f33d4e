//! The lease by which one root of an Envoy is chosen to talk to the sidecar.
//!
//! Every worker has a root, and so has the main thread. All of them tick, and the holder of the lease renews it. If the
//! holder dies, another root takes over when the lease has expired.

use crate::codec::Reader;
use crate::host::Host;
use crate::shared::{LEASE_KEY, update};

/// How long a lease lasts unless it is renewed.
pub const LEASE_MS: u64 = 3_000;
/// A root that is younger than the holder by more than this has a newer configuration, and takes over at once.
pub const YOUNGER_MS: u64 = 5_000;

/// One root's claim to the lease.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    holder: u64,
    /// When the root was created.
    pub born_ms: u64,
}

impl Claim {
    /// Creates a claim for a root that has just been created.
    pub fn new(host: &impl Host) -> Self {
        Self { holder: host.random(), born_ms: host.steady_ms() }
    }

    /// Takes or renews the lease if possible. Returns whether this root holds it.
    pub fn holds(self, host: &impl Host, now_ms: u64) -> bool {
        let held = update(host, LEASE_KEY, |value| {
            let renewed = Lease { claim: self, until_ms: now_ms + LEASE_MS };
            match Lease::decode(&value.bytes) {
                Some(lease) if lease.claim.holder == self.holder && lease.until_ms > now_ms + LEASE_MS / 2 => {
                    (None, true)
                }
                Some(lease) if lease.claim.holder != self.holder && !lease.yields_to(self, now_ms) => (None, false),
                _ => (Some(renewed.encode()), true),
            }
        });
        held == Some(true)
    }
}

struct Lease {
    claim: Claim,
    until_ms: u64,
}

impl Lease {
    fn yields_to(&self, other: Claim, now_ms: u64) -> bool {
        now_ms >= self.until_ms || other.born_ms > self.claim.born_ms + YOUNGER_MS
    }

    fn encode(&self) -> Vec<u8> {
        [self.claim.holder, self.claim.born_ms, self.until_ms].iter().flat_map(|part| part.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let claim = Claim { holder: reader.u64()?, born_ms: reader.u64()? };
        Some(Self { claim, until_ms: reader.u64()? })
    }
}
