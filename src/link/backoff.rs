//! Exponential backoff with jitter, for calls to the sidecar.
//!
//! Each kind of call has a backoff of its own, so that polls go on while reports are refused. All roots of an Envoy share a
//! *gate* in shared data. A call that fails closes it, and the next one that succeeds opens it. While it is closed, they
//! make at most one call per [`SPACING_MS`] together, however many workers there are.
//!
//! Kills and polls come before observations, and those before calls and answers, both of which every worker sends. Each of
//! the two has a second gate that only it closes, so kills and polls do not wait if nothing else fails. While the first gate
//! is closed, they leave each opportunity to what comes before them for a while.

use crate::host::Host;
use crate::shared::{ENTRIES_GATE_KEY, GATE_KEY, OBSERVATIONS_GATE_KEY, number};

/// The shortest time between two calls of an Envoy while calls fail.
pub const SPACING_MS: u64 = 1_000;
/// How long a call waits after another one that the sidecar refused, so that the next tick makes it.
const REST_MS: u64 = 20;
/// How long observations wait for a kill or a poll to use the next opportunity. This is longer than the random part of the
/// first pause and the time until the next tick.
const OBSERVATIONS_YIELD_MS: u64 = 400;
/// The same for calls and answers, which also wait for observations.
const ENTRIES_YIELD_MS: u64 = 800;

/// Waits longer after each failure. The random part keeps many Envoys from calling at the same moment.
#[derive(Debug)]
pub struct Backoff {
    longest_ms: u64,
    /// The gate that a failure closes.
    gate: &'static str,
    /// How long each opportunity is left to other kinds of calls.
    yield_ms: u64,
    failures: u32,
    until_ms: u64,
}

impl Backoff {
    /// Creates a backoff that waits at most this long, and up to a quarter more.
    pub fn new(longest_ms: u64) -> Self {
        Self { longest_ms, gate: GATE_KEY, yield_ms: 0, failures: 0, until_ms: 0 }
    }

    /// Like [`new`](Self::new), for observations.
    pub fn of_observations(longest_ms: u64) -> Self {
        Self { gate: OBSERVATIONS_GATE_KEY, yield_ms: OBSERVATIONS_YIELD_MS, ..Self::new(longest_ms) }
    }

    /// Like [`new`](Self::new), for calls and answers.
    pub fn of_entries(longest_ms: u64) -> Self {
        Self { gate: ENTRIES_GATE_KEY, yield_ms: ENTRIES_YIELD_MS, ..Self::new(longest_ms) }
    }

    /// Whether the last call failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Whether the pause after the last failure is over. Unlike [`may_call`](Self::may_call), this leaves the gate alone.
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms
    }

    /// Whether a call may be made now. If so, it must be made: it may be the only one that the gate lets pass.
    #[inline(never)]
    pub fn may_call(&self, host: &impl Host, now_ms: u64) -> bool {
        if !self.is_over(now_ms) {
            return false;
        }
        if self.gate != GATE_KEY {
            let next_ms = number(&host.get(GATE_KEY).bytes);
            let yields = next_ms > 0 && now_ms < next_ms + self.yield_ms;
            if yields || !pass(host, self.gate, now_ms) {
                return false;
            }
        }
        pass(host, GATE_KEY, now_ms)
    }

    /// Records a failure. Returns whether it is the first in a row.
    #[inline(never)]
    pub fn fail(&mut self, host: &impl Host, now_ms: u64) -> bool {
        self.postpone(host, now_ms);
        set_gate(host, self.gate, now_ms + SPACING_MS);
        self.failures == 1
    }

    /// Waits longer after each failure, as [`fail`](Self::fail) does, but leaves the gate open: the sidecar works, and does
    /// not want what this call brought.
    #[inline(never)]
    pub fn postpone(&mut self, host: &impl Host, now_ms: u64) {
        let delay = (SPACING_MS << self.failures.min(10)).min(self.longest_ms);
        self.until_ms = now_ms + delay + host.random() % (delay / 4 + 1);
        self.failures += 1;
    }

    /// Waits for a moment after a call that the sidecar refused. If the gate is closed, this leaves the next opportunity to
    /// other kinds of calls.
    pub fn rest(&mut self, host: &impl Host, now_ms: u64) {
        let is_open = number(&host.get(GATE_KEY).bytes) == 0;
        self.until_ms = now_ms + if is_open { REST_MS } else { 2 * SPACING_MS };
    }

    /// Records a success. Returns whether there were failures before it.
    #[inline(never)]
    pub fn recover(&mut self, host: &impl Host) -> bool {
        set_gate(host, self.gate, 0);
        if self.gate != GATE_KEY {
            set_gate(host, GATE_KEY, 0);
        }
        self.forget()
    }

    /// Forgets the failures, so that the next call waits only for the gate. Returns whether there were any.
    pub fn forget(&mut self) -> bool {
        self.until_ms = 0;
        std::mem::take(&mut self.failures) > 0
    }
}

/// Whether a gate lets a call pass. If it is closed, the next call has to wait again.
#[inline(never)]
fn pass(host: &impl Host, gate: &str, now_ms: u64) -> bool {
    let value = host.get(gate);
    match number(&value.bytes) {
        0 => true,
        next_ms if now_ms < next_ms => false,
        _ => host.set(gate, &(now_ms + SPACING_MS).to_le_bytes(), value.version).is_ok(),
    }
}

#[inline(never)]
fn set_gate(host: &impl Host, gate: &str, next_ms: u64) {
    let value = host.get(gate);
    if number(&value.bytes) != next_ms {
        // If another root was faster, its news are as good.
        let _ = host.set(gate, &next_ms.to_le_bytes(), value.version);
    }
}
