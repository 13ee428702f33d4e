//! What the filter and the sidecar say to each other, off the request path.
//!
//! Every root ticks. The one that holds the [`lease`] speaks for the whole Envoy: it keeps a long poll open for policy
//! changes ([`sync`]) and sends the kill reports that wait in the [`outbox`]. Each worker sends its own [`observations`].

mod backoff;
mod lease;
pub mod observations;
pub mod outbox;
pub mod report;
pub mod sync;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::metrics::Metric;
use crate::pause;
use crate::worker::Worker;
use lease::Claim;
use outbox::Sender;
use sync::{PolicySync, Position};

/// How often a root ticks.
pub const TICK_MS: u64 = 50;
/// How long a call may take in addition to the time that the sidecar is asked to hold it.
const GRACE_MS: u64 = 10_000;

/// One root's side of the link.
pub struct Link {
    worker: Rc<Worker>,
    claim: Claim,
    sync: PolicySync,
    sender: Sender,
    next_observations_ms: u64,
}

impl Link {
    /// Creates the link of a root that has just been configured.
    pub fn new(worker: Rc<Worker>, host: &impl Host) -> Self {
        let claim = Claim::new(host);
        worker.ticked_ms.set(claim.born_ms);
        let sync = PolicySync::new(Rc::clone(&worker));
        Self { worker, claim, sync, sender: Sender::default(), next_observations_ms: 0 }
    }

    /// Does what is due. Called every [`TICK_MS`].
    pub fn tick(&mut self, host: &impl Host) {
        let now_ms = host.now_ms();
        self.worker.ticked_ms.set(now_ms);
        let position = Position::read(host);
        self.worker.round.set(position.as_ref().map(|position| position.round));
        outbox::retry_overflow(host, &self.worker);
        self.send_observations(host, now_ms);
        if self.claim.holds(host, now_ms) {
            let heard_ms = position.map_or(self.claim.born_ms, |position| position.heard_ms);
            host.record(Metric::SyncAgeSeconds, now_ms.saturating_sub(heard_ms) / 1000);
            host.record(Metric::Paused, u64::from(pause::is_in_force(host, now_ms)));
            self.sync.tick(host, now_ms);
            self.sender.send(host, now_ms);
        }
    }

    /// Handles the answer to a call, or its failure. Only the sidecar's own answers count: Envoy answers in its name when
    /// it cannot be reached.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: Option<Incoming>) {
        let answer = answer.filter(|answer| answer.from_sidecar);
        if !self.sync.response(host, call, &answer) {
            self.sender.response(host, call, answer);
        }
    }

    fn send_observations(&mut self, host: &impl Host, now_ms: u64) {
        if now_ms < self.next_observations_ms {
            return;
        }
        self.next_observations_ms = now_ms + u64::from(self.worker.config.observe_interval_ms);
        let Some(observations) = self.worker.observations.borrow_mut().take(&self.worker.envoy) else { return };
        if let Ok(body) = serde_json::to_vec(&observations) {
            let path = "/v1/observations".to_owned();
            host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms: GRACE_MS });
        }
    }
}
