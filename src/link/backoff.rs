//! Exponential backoff with jitter, for calls to the sidecar.
//!
//! Each kind of call has a backoff of its own, so that polls go on while reports are refused. All roots of an Envoy share a
//! *gate* in shared data. A call that fails closes it, and the next one that succeeds opens it. While it is closed, they
//! make at most one call per [`SPACING_MS`] together, however many workers there are.

use crate::host::Host;
use crate::shared::{GATE_KEY, number};

/// The shortest time between two calls of an Envoy while calls fail.
pub const SPACING_MS: u64 = 1_000;

/// Waits longer after each failure. The random part keeps many Envoys from calling at the same moment.
#[derive(Debug)]
pub struct Backoff {
    longest_ms: u64,
    failures: u32,
    until_ms: u64,
}

impl Backoff {
    /// Creates a backoff that waits at most this long, and up to a quarter more.
    pub fn new(longest_ms: u64) -> Self {
        Self { longest_ms, failures: 0, until_ms: 0 }
    }

    /// Whether the last call failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Whether a call may be made now. If so, it must be made: it may be the only one that the gate lets pass.
    #[inline(never)]
    pub fn may_call(&self, host: &impl Host, now_ms: u64) -> bool {
        if now_ms < self.until_ms {
            return false;
        }
        let value = host.get(GATE_KEY);
        match number(&value.bytes) {
            0 => true,
            next_ms if now_ms < next_ms => false,
            _ => host.set(GATE_KEY, &(now_ms + SPACING_MS).to_le_bytes(), value.version).is_ok(),
        }
    }

    /// Records a failure. Returns whether it is the first in a row.
    #[inline(never)]
    pub fn fail(&mut self, host: &impl Host, now_ms: u64) -> bool {
        let delay = (SPACING_MS << self.failures.min(10)).min(self.longest_ms);
        self.until_ms = now_ms + delay + host.random() % (delay / 4 + 1);
        self.failures += 1;
        set_gate(host, now_ms + SPACING_MS);
        self.failures == 1
    }

    /// Records a success. Returns whether there were failures before it.
    #[inline(never)]
    pub fn recover(&mut self, host: &impl Host) -> bool {
        set_gate(host, 0);
        self.until_ms = 0;
        std::mem::take(&mut self.failures) > 0
    }
}

#[inline(never)]
fn set_gate(host: &impl Host, next_ms: u64) {
    let value = host.get(GATE_KEY);
    if number(&value.bytes) != next_ms {
        // If another root was faster, its news are as good.
        let _ = host.set(GATE_KEY, &next_ms.to_le_bytes(), value.version);
    }
}
