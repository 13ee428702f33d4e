//! Kill reports that the sidecar has not accepted yet.
//!
//! Reports wait in a fixed number of slots in shared data, so that they outlive the worker that made them. If all slots are
//! taken, a worker keeps its report in memory and tries again. Only the holder of the lease sends, one report at a time,
//! and every attempt has the same `kill_id`, by which the sidecar recognises a report that it has already accepted.

use super::GRACE_MS;
use super::backoff::Backoff;
use crate::decode::json::Json;
use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::metrics::Metric;
use crate::shared::{OUTBOX_COUNT_KEY, outbox_key, update};
use crate::wire::KillReport;
use crate::worker::Worker;

/// How many reports can wait at once.
const SLOTS: u32 = 64;

/// Puts a report where the holder of the lease will find it.
pub fn put(host: &impl Host, worker: &Worker, report: KillReport) {
    if !try_put(host, &report) {
        worker.overflow.borrow_mut().push(report);
    }
}

/// Tries again to find a slot for the reports that found none before.
pub fn retry_overflow(host: &impl Host, worker: &Worker) {
    let mut waiting = worker.overflow.borrow_mut();
    // As long as the first report finds no slot, the others would not find one either.
    while waiting.first().is_some_and(|report| try_put(host, report)) {
        waiting.remove(0);
    }
}

fn try_put(host: &impl Host, report: &KillReport) -> bool {
    let Ok(bytes) = serde_json::to_vec(report) else { return true };
    let stored = (0..SLOTS).any(|slot| {
        let taken = update(host, &outbox_key(slot), |value| {
            let free = value.bytes.is_empty();
            (free.then(|| bytes.clone()), free)
        });
        taken == Some(true)
    });
    if stored {
        update(host, OUTBOX_COUNT_KEY, |value| (Some((count(&value.bytes) + 1).to_le_bytes().to_vec()), ()));
    }
    stored
}

fn count(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// A report in its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    slot: u32,
    /// The report, as it is sent.
    bytes: Vec<u8>,
}

/// Sends the waiting reports.
#[derive(Debug, Default)]
pub struct Sender {
    /// The value of the outbox's count when the slots were last read.
    counted: u64,
    waiting: Vec<Waiting>,
    sending: Option<(CallId, Waiting)>,
    backoff: Backoff,
}

impl Sender {
    /// Sends the next report, if there is one and none is being sent. Costs one read while nothing waits.
    pub fn send(&mut self, host: &impl Host, now_ms: u64) {
        if self.sending.is_some() || !self.backoff.is_over(now_ms) {
            return;
        }
        self.look(host);
        let Some(waiting) = self.waiting.first().cloned() else { return };
        let path = "/v1/kills".to_owned();
        let body = waiting.bytes.clone();
        match host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms: GRACE_MS }) {
            Some(call) => self.sending = Some((call, waiting)),
            None => {
                self.backoff.fail(now_ms, host.random());
            }
        }
    }

    /// Handles the answer to a report and sends the next one.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: Option<Incoming>) {
        let Some((_, waiting)) = self.sending.take_if(|(sent, _)| *sent == call) else { return };
        let now_ms = host.now_ms();
        match answer.map(|answer| answer.status) {
            Some(200..300) => {
                self.remove(host, &waiting);
                self.backoff.recover();
            }
            // The report will never be accepted as it is. It is logged and dropped, so that it does not hold up the others
            // for ever. A wrong token and a busy sidecar can be mended, so those are retried.
            Some(status @ 400..500) if ![401, 403, 408, 429].contains(&status) => {
                log::warn!("the sidecar refuses a kill report ({status}): {}", without_excerpt(&waiting.bytes));
                self.remove(host, &waiting);
            }
            status => {
                // Another report goes first next time.
                let skipped = self.waiting.len().min(1);
                self.waiting.rotate_left(skipped);
                if self.backoff.fail(now_ms, host.random()) {
                    let status = status.map_or("no answer".to_owned(), |status| format!("status {status}"));
                    log::warn!("a kill report waits for the sidecar ({status})");
                }
            }
        }
        self.send(host, now_ms);
    }

    /// Whether a report is being sent.
    #[cfg(test)]
    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    fn look(&mut self, host: &impl Host) {
        let counted = count(&host.get(OUTBOX_COUNT_KEY).bytes);
        if counted != self.counted {
            self.counted = counted;
            let read = |slot| Waiting { slot, bytes: host.get(&outbox_key(slot)).bytes };
            self.waiting = (0..SLOTS).map(read).filter(|waiting| !waiting.bytes.is_empty()).collect();
            host.record(Metric::OutboxDepth, self.waiting.len() as u64);
        }
    }

    fn remove(&mut self, host: &impl Host, sent: &Waiting) {
        update(host, &outbox_key(sent.slot), |value| ((value.bytes == sent.bytes).then(Vec::new), ()));
        self.waiting.retain(|waiting| waiting != sent);
        host.record(Metric::OutboxDepth, self.waiting.len() as u64);
    }
}

/// A report for the log, where no prompt text may appear.
fn without_excerpt(report: &[u8]) -> String {
    let members = Json::root(report).into_iter().flat_map(Json::members).flatten();
    let members = members.filter(|(name, _)| !name.is("excerpt"));
    let members = members.map(|(name, value)| [b"\"", name.raw(), b"\":", value.text()].concat());
    format!("{{{}}}", String::from_utf8_lossy(&members.collect::<Vec<_>>().join(&b',')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_report_is_logged_without_its_excerpt() {
        let report = br#"{"excerpt":"a \"secret\", {really}","kill_id":"k1","matches":[{"calls_ago":1}],"score":12.5}"#;
        assert_eq!(without_excerpt(report), r#"{"kill_id":"k1","matches":[{"calls_ago":1}],"score":12.5}"#);
    }
}
