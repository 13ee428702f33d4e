//! Kill reports that the sidecar has not accepted yet.
//!
//! Reports wait in shared data, so that they outlive the worker that made them. They are kept as lines of JSON in a fixed
//! number of buckets, chosen by agent. Each bucket and each agent has limited room: when a bucket gets full, new reports are
//! stored without their evidence, and when an agent has too many, its oldest is dropped.
//!
//! Only the holder of the lease sends, one report at a time, until the sidecar confirms it with a receipt that has the same
//! `kill_id`. The sidecar recognises a report that it has already accepted by this id. A report that is refused waits behind
//! the others and is tried again.

use super::GRACE_MS;
use super::backoff::Backoff;
use crate::decode::json::Json;
use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::metrics::Metric;
use crate::shared::{OUTBOX_COUNT_KEY, number, outbox_key, update_persistently};

/// How many buckets there are.
const BUCKETS: usize = 64;
/// Reports keep their evidence up to this size of their bucket.
const BYTES_WITH_EVIDENCE: usize = 64 << 10;
/// The largest size of a bucket. It has room for hundreds of reports without evidence.
const MAX_BYTES: usize = 256 << 10;
/// How many reports of one agent can wait.
const MAX_PER_AGENT: usize = 64;
/// How often the buckets are read although the counter says that nothing is new.
const LOOK_MS: u64 = 10_000;
/// The longest pause between two attempts, before jitter.
const LONGEST_PAUSE_MS: u64 = 8_000;

/// Puts a report where the holder of the lease will find it, unless it is there already. `brief` is the report without its
/// evidence.
#[inline(never)]
pub fn put(host: &impl Host, report: &[u8], brief: &[u8]) {
    let agent_id = member(brief, "agent_id");
    let is_same = |line: &&[u8], name| member(line, name) == member(brief, name);
    let hash = agent_id.iter().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let mut is_full = false;
    let stored = update_persistently(host, &outbox_key(hash % BUCKETS), |value| {
        let mut reports: Vec<&[u8]> = lines(&value.bytes).collect();
        if reports.iter().any(|line| is_same(line, "kill_id")) {
            return None;
        }
        let of_agent = reports.iter().filter(|line| is_same(line, "agent_id")).count();
        let oldest = reports.iter().position(|line| is_same(line, "agent_id"));
        if let Some(oldest) = oldest.filter(|_| of_agent >= MAX_PER_AGENT) {
            reports.remove(oldest);
        }
        let has_room = value.bytes.len() + report.len() <= BYTES_WITH_EVIDENCE;
        reports.push(if has_room { report } else { brief });
        let bytes = reports.join(&b'\n');
        is_full = bytes.len() > MAX_BYTES;
        (!is_full).then_some(bytes)
    });
    if is_full || stored.is_none() {
        log::error!("a kill report finds no room: {}", String::from_utf8_lossy(brief));
    } else {
        update_persistently(host, OUTBOX_COUNT_KEY, |value| Some((number(&value.bytes) + 1).to_le_bytes().to_vec()));
    }
}

/// The reports in a bucket.
fn lines(bucket: &[u8]) -> impl Iterator<Item = &[u8]> {
    bucket.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Returns the text of one member of a report or a receipt. None of those that are asked for contains an escape.
#[inline(never)]
fn member<'a>(json: &'a [u8], name: &str) -> &'a [u8] {
    let value = Json::root(json).and_then(|json| json.get(name)).ok().flatten();
    value.and_then(Json::string).map(|text| text.raw()).unwrap_or_default()
}

/// A report that is being sent.
#[derive(Debug)]
struct Sent {
    call: CallId,
    bucket: usize,
    report: Vec<u8>,
}

/// Sends the waiting reports.
#[derive(Debug)]
pub struct Sender {
    /// The value of the outbox's counter when the buckets were last read.
    counted: Option<u64>,
    looked_ms: u64,
    /// How many reports wait in each bucket.
    waiting: [usize; BUCKETS],
    /// The bucket from which the next report is taken, if there is one in it.
    next: usize,
    sent: Option<Sent>,
    backoff: Backoff,
    /// The status that was last logged since a report was accepted.
    logged: Option<u16>,
}

impl Default for Sender {
    fn default() -> Self {
        let backoff = Backoff::new(LONGEST_PAUSE_MS);
        Self { counted: None, looked_ms: 0, waiting: [0; BUCKETS], next: 0, sent: None, backoff, logged: None }
    }
}

impl Sender {
    /// Sends the next report, if there is one and none is being sent. Costs one read while nothing is new.
    pub fn send(&mut self, host: &impl Host, now_ms: u64) {
        self.look(host, now_ms);
        let mut buckets = (self.next..BUCKETS).chain(0..self.next);
        let bucket = buckets.find(|bucket| self.waiting.get(*bucket).is_some_and(|waiting| *waiting > 0));
        let Some(bucket) = bucket.filter(|_| self.sent.is_none() && self.backoff.may_call(host, now_ms)) else {
            return;
        };
        let value = host.get(&outbox_key(bucket));
        let Some(report) = lines(&value.bytes).next().map(<[u8]>::to_vec) else { return self.counted = None };
        let (path, body) = ("/v1/kills".to_owned(), report.clone());
        match host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms: GRACE_MS }) {
            Some(call) => self.sent = Some(Sent { call, bucket, report }),
            None => {
                self.backoff.fail(host, now_ms);
            }
        }
    }

    /// Handles the answer to a report and sends the next one. Returns false if the call was not a report.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: &Option<Incoming>) -> bool {
        let Some(sent) = self.sent.take_if(|sent| sent.call == call) else { return false };
        let now_ms = host.steady_ms();
        let kill_id = member(&sent.report, "kill_id");
        let is_receipt = |answer: &Incoming| {
            (200..300).contains(&answer.status) && !kill_id.is_empty() && member(&answer.body, "kill_id") == kill_id
        };
        if answer.as_ref().is_some_and(is_receipt) {
            self.remove(host, &sent, None);
            self.backoff.recover(host);
            self.logged = None;
        } else {
            // The other reports go first next time.
            self.remove(host, &sent, Some(&sent.report));
            self.next = (sent.bucket + 1) % BUCKETS;
            self.backoff.fail(host, now_ms);
            let status = answer.as_ref().map_or(0, |answer| answer.status);
            if self.logged.replace(status) != Some(status) {
                log_failure(status, &sent.report);
            }
        }
        self.send(host, now_ms);
        true
    }

    /// Whether a report is being sent.
    #[cfg(test)]
    pub fn is_sending(&self) -> bool {
        self.sent.is_some()
    }

    /// Counts the reports in every bucket, if there may be new ones.
    fn look(&mut self, host: &impl Host, now_ms: u64) {
        let counted = Some(number(&host.get(OUTBOX_COUNT_KEY).bytes));
        // A new report does not wait because of an older one that the sidecar refuses.
        if counted != self.counted && self.logged.is_some_and(|status| (400..500).contains(&status)) {
            self.backoff.recover(host);
        }
        if counted != self.counted || now_ms >= self.looked_ms + LOOK_MS {
            (self.counted, self.looked_ms) = (counted, now_ms);
            self.waiting = std::array::from_fn(|bucket| lines(&host.get(&outbox_key(bucket)).bytes).count());
            self.record_depth(host);
        }
    }

    /// Takes a report out of its bucket, or puts it at the end, where it waits for another attempt. Does nothing if another
    /// root has taken it out.
    fn remove(&mut self, host: &impl Host, sent: &Sent, put_back: Option<&[u8]>) {
        let mut left = 0;
        update_persistently(host, &outbox_key(sent.bucket), |value| {
            let others = lines(&value.bytes).filter(|line| *line != sent.report);
            let put_back = put_back.filter(|report| lines(&value.bytes).any(|line| line == *report));
            let reports: Vec<&[u8]> = others.chain(put_back).collect();
            left = reports.len();
            Some(reports.join(&b'\n')).filter(|bytes| *bytes != value.bytes)
        });
        if let Some(waiting) = self.waiting.get_mut(sent.bucket) {
            *waiting = left;
        }
        self.record_depth(host);
    }

    fn record_depth(&self, host: &impl Host) {
        host.record(Metric::OutboxDepth, self.waiting.iter().sum::<usize>() as u64);
    }
}

fn log_failure(status: u16, report: &[u8]) {
    // The sidecar understands the report and does not want it. A wrong token and a busy sidecar are something else.
    if (400..500).contains(&status) && ![401, 403, 408, 429].contains(&status) {
        return log::warn!("the sidecar refuses a kill report ({status}): {}", without_excerpt(report));
    }
    let problem = match status {
        0 => "no answer",
        200..300 => "its answer is not the receipt",
        _ => "an error",
    };
    log::warn!("a kill report waits for the sidecar ({problem}, status {status})");
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
