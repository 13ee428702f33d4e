//! What the filter and the sidecar say to each other, off the request path.
//!
//! Every root ticks. The one that holds the [`lease`] speaks for the whole Envoy: it keeps a long poll open for policy
//! changes ([`sync`]) and sends the kill reports that wait in the [`outbox`]. Each worker sends its own [`observations`] and
//! [`entries`].

mod backoff;
pub mod entries;
mod lease;
pub mod observations;
pub mod outbox;
pub mod report;
pub mod sync;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use crate::host::{CallId, Host, Incoming};
use crate::metrics::Metric;
use crate::pause;
use crate::worker::Worker;
use entries::EntrySender;
use lease::Claim;
use observations::Reporter;
use outbox::Sender;
use sync::{PolicySync, Position};

/// How often a root ticks.
pub const TICK_MS: u64 = 50;

/// One root's side of the link.
pub struct Link {
    worker: Rc<Worker>,
    claim: Claim,
    sync: PolicySync,
    sender: Sender,
    reporter: Reporter,
    entries: EntrySender,
}

impl Link {
    /// Creates the link of a root that has just been configured.
    pub fn new(worker: Rc<Worker>, host: &impl Host) -> Self {
        let claim = Claim::new(host);
        worker.read_clock(host);
        let sync = PolicySync::new(Rc::clone(&worker));
        let reporter = Reporter::new(Rc::clone(&worker));
        let entries = EntrySender::new(Rc::clone(&worker), host);
        Self { worker, claim, sync, sender: Sender::default(), reporter, entries }
    }

    /// Does what is due. Called every [`TICK_MS`].
    pub fn tick(&mut self, host: &impl Host) {
        let now_ms = host.steady_ms();
        self.worker.read_clock(host);
        let position = Position::read(host);
        self.worker.round.set(position.as_ref().map(|position| position.round));
        if self.claim.holds(host, now_ms) {
            let heard_ms = position.map_or(self.claim.born_ms, |position| position.heard_ms);
            host.record(Metric::SyncAgeSeconds, now_ms.saturating_sub(heard_ms) / 1000);
            host.record(Metric::Paused, u64::from(pause::is_in_force(host)));
            // Kills come first, because one call at a time may be made while the sidecar fails.
            self.sender.send(host, now_ms);
            self.sync.tick(host, now_ms);
        }
        self.reporter.tick(host, now_ms);
        self.entries.tick(host, now_ms);
    }

    /// Handles the answer to a call, or its failure. Only the sidecar's own answers count: Envoy answers in its name when
    /// it cannot be reached.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: Option<Incoming>) {
        let answer = answer.filter(|answer| answer.from_sidecar);
        let was_failing = self.sync.is_failing();
        if !self.sync.response(host, call, &answer) && !self.sender.response(host, call, &answer) {
            self.reporter.response(host, call, &answer);
            return self.entries.response(host, call, &answer);
        }
        if was_failing && !self.sync.is_failing() {
            self.sender.hurry();
        }
        // Another root may have taken the lease over while the call was under way.
        let now_ms = host.steady_ms();
        if self.claim.holds(host, now_ms) {
            self.sender.send(host, now_ms);
            self.sync.poll(host, now_ms);
        }
    }
}
