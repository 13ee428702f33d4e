//! Reports that the sidecar has not accepted yet: in shared data, so that they outlive the worker that made them.
//!
//! A fixed number of slots. A worker that finds none free keeps its report in memory and tries again: a kill is never
//! dropped while the worker lives. Only the holder of the lease sends, one report at a time, the same `kill_id` on every
//! try; the sidecar takes it once.

use crate::host::Host;
use crate::metrics::Metric;
use crate::state::{OUTBOX_COUNT_KEY, outbox_key, update};
use crate::wire::KillReport;
use crate::worker::Worker;

/// Reports that can wait at once.
const SLOTS: u32 = 64;

/// Puts a report where the holder of the lease will find it.
pub fn put(host: &impl Host, worker: &Worker, report: KillReport) {
    if !try_put(host, &report) {
        worker.overflow.borrow_mut().push(report);
    }
}

/// Tries again what found no room before.
pub fn retry_overflow(host: &impl Host, worker: &Worker) {
    worker.overflow.borrow_mut().retain(|report| !try_put(host, report));
}

fn try_put(host: &impl Host, report: &KillReport) -> bool {
    let Ok(bytes) = serde_json::to_vec(report) else { return true };
    let slot = (0..SLOTS).find(|&slot| {
        let taken = update(host, &outbox_key(slot), |stored| match stored.bytes.is_empty() {
            true => (Some(bytes.clone()), true),
            false => (None, false),
        });
        taken == Some(true)
    });
    let stored = slot.is_some();
    if stored {
        update(host, OUTBOX_COUNT_KEY, |stored| (Some((number(&stored.bytes) + 1).to_le_bytes().to_vec()), ()));
    }
    stored
}

/// A waiting report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    slot: u32,
    /// The report, as it is sent.
    pub bytes: Vec<u8>,
}

/// The sender's view of the outbox.
#[derive(Debug, Default)]
pub struct Outbox {
    looked_at: u64,
    waiting: Vec<Waiting>,
}

impl Outbox {
    /// The next report to send, if any. Costs one read while nothing waits.
    pub fn next(&mut self, host: &impl Host) -> Option<Waiting> {
        let count = number(&host.get(OUTBOX_COUNT_KEY).bytes);
        if count != self.looked_at {
            self.looked_at = count;
            self.waiting = (0..SLOTS)
                .map(|slot| Waiting { slot, bytes: host.get(&outbox_key(slot)).bytes })
                .filter(|waiting| !waiting.bytes.is_empty())
                .collect();
            host.record(Metric::OutboxDepth, self.waiting.len() as u64);
        }
        self.waiting.first().cloned()
    }

    /// The sidecar has taken a report: its slot is free.
    pub fn accepted(&mut self, host: &impl Host, sent: &Waiting) {
        update(host, &outbox_key(sent.slot), |stored| match stored.bytes == sent.bytes {
            true => (Some(Vec::new()), ()),
            false => (None, ()),
        });
        self.waiting.retain(|waiting| waiting != sent);
        host.record(Metric::OutboxDepth, self.waiting.len() as u64);
    }

    /// The sidecar has not: another may go first next time.
    pub fn refused(&mut self) {
        if !self.waiting.is_empty() {
            self.waiting.rotate_left(1);
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}
