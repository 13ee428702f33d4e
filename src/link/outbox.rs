//! Kill reports that the sidecar has not accepted yet.
//!
//! Reports wait in shared data, so that they outlive the worker that made them. They are kept as lines of JSON in a fixed
//! number of buckets, chosen by agent. Each bucket and each agent has limited room. When a bucket gets full, new reports are
//! stored without their evidence. When it is full, or when an agent has too many reports, the least important one is
//! dropped: a loop that was only observed before a block, and a block before a kill. A kill never makes room for anything
//! but a later kill of the same agent. Every report that is dropped is logged and counted.
//!
//! Only the holder of the lease sends, one report at a time, until the sidecar confirms it with a receipt that has the same
//! `kill_id`. The sidecar recognises a report that it has already accepted by this id.
//!
//! A failure can concern one report or all of them. If the sidecar *refuses* a report, the next one may fare better. The
//! line of a report that was refused begins with a space from then on. Such reports are tried again one at a time, with
//! growing pauses, and only if no other report waits. After any other failure, all reports wait.

use super::backoff::Backoff;
use super::report::STEADY_MS;
use crate::decode::json::Json;
use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::metrics::Metric;
use crate::shared::{OUTBOX_COUNT_KEY, outbox_key, update_persistently};

/// How many buckets there are.
const BUCKETS: usize = 64;
/// Reports keep their evidence up to this size of their bucket.
const BYTES_WITH_EVIDENCE: usize = 64 << 10;
/// The largest size of a bucket. It has room for hundreds of reports without evidence.
const MAX_BYTES: usize = 256 << 10;
/// How many reports of one agent can wait.
const MAX_PER_AGENT: usize = 64;
/// How often all buckets are read although their counts say that nothing is new.
const LOOK_MS: u64 = 10_000;
/// How long a report may take. Connections may have died unnoticed, and each attempt may meet another one of them, so this
/// is short.
const TIMEOUT_MS: u64 = 2_000;
/// How long a report may take after [`SHORT_TIMEOUTS`] attempts without an answer. The sidecar may be as slow as that.
const LONG_TIMEOUT_MS: u64 = 4_000;
/// How many attempts are short. An Envoy's worker rarely has more idle connections to the sidecar.
const SHORT_TIMEOUTS: u32 = 4;
/// The longest pause between two attempts, before jitter. Together with [`LONG_TIMEOUT_MS`], this is how long a report waits
/// after the sidecar can be reached again.
const LONGEST_PAUSE_MS: u64 = 4_000;

/// Puts a report where the holder of the lease will find it, unless it is there already. `brief` is the report without its
/// evidence.
#[inline(never)]
pub fn put(host: &impl Host, report: &[u8], brief: &[u8]) {
    let (kill_id, agent_id) = (member(brief, "kill_id"), member(brief, "agent_id"));
    let is_of_agent = |line: &[u8]| member(line, "agent_id") == agent_id;
    let hash = agent_id.iter().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let bucket = hash % BUCKETS;
    let mut dropped: Vec<Vec<u8>> = Vec::new();
    let stored = update_persistently(host, &outbox_key(bucket), |value| {
        dropped.clear();
        let mut reports: Vec<&[u8]> = lines(&value.bytes).collect();
        if reports.iter().any(|line| member(line, "kill_id") == kill_id) {
            return None;
        }
        let has_room = value.bytes.len() + report.len() <= BYTES_WITH_EVIDENCE;
        let new = if has_room { report } else { brief };
        loop {
            let is_crowded = reports.iter().filter(|line| is_of_agent(line)).count() >= MAX_PER_AGENT;
            let bytes: usize = reports.iter().map(|line| line.len() + 1).sum();
            if !is_crowded && bytes + new.len() <= MAX_BYTES {
                reports.push(new);
                return Some(reports.join(&b'\n'));
            }
            let candidates = (0..).zip(&reports).filter(|(_, line)| !is_crowded || is_of_agent(line));
            // The least important one, and the oldest of these.
            let least = candidates.map(|(position, line)| (importance(line), position)).min();
            // An agent's own reports make room for its later ones, and those of other agents only for important ones.
            match least {
                Some((least, position)) if least < importance(brief) + usize::from(is_crowded) => {
                    dropped.push(reports.remove(position).to_vec());
                }
                _ => {
                    dropped = vec![brief.to_vec()];
                    return None;
                }
            }
        }
    });
    if stored.is_none() {
        dropped = vec![brief.to_vec()];
    }
    for report in dropped {
        host.count(Metric::ReportsDropped, 1);
        log::error!("a kill report is dropped, because too many are waiting: {}", without_excerpt(&report));
    }
    update_persistently(host, OUTBOX_COUNT_KEY, |value| {
        let mut counts = value.bytes.clone();
        counts.resize(BUCKETS, 0);
        if let Some(count) = counts.get_mut(bucket) {
            *count = count.wrapping_add(1);
        }
        Some(counts)
    });
}

/// Returns how important a report is. If there is not enough room, the least important one is dropped.
fn importance(report: &[u8]) -> usize {
    match member(report, "action") {
        b"observe" => 0,
        b"block" => 1,
        _ => 2,
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

/// Whether a report was refused before.
fn was_refused(line: &[u8]) -> bool {
    line.starts_with(b" ")
}

/// Returns a report as the sidecar gets it: with the time that it has waited in place of the steady time of the detection.
fn body(line: &[u8], now_ms: u64) -> Vec<u8> {
    let report = line.trim_ascii_start();
    let stated = report.strip_prefix(STEADY_MS.as_bytes());
    let stated = stated.and_then(|rest| rest.split_at_checked(rest.iter().position(|byte| *byte == b',')?));
    let number = |digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
    let stated = stated.and_then(|(digits, rest)| Some((number(digits)?, rest)));
    let Some((detected_ms, rest)) = stated else { return report.to_vec() };
    let waited_ms = now_ms.saturating_sub(detected_ms).to_string();
    [b"{\"waited_ms\":", waited_ms.as_bytes(), rest].concat()
}

/// How many reports wait in a bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    all: usize,
    refused: usize,
}

impl Waiting {
    fn count(bucket: &[u8]) -> Self {
        lines(bucket).fold(Self::default(), |waiting, line| Self {
            all: waiting.all + 1,
            refused: waiting.refused + usize::from(was_refused(line)),
        })
    }
}

/// A report that is being sent.
#[derive(Debug)]
struct Sent {
    call: CallId,
    at_ms: u64,
    bucket: usize,
    line: Vec<u8>,
}

/// Sends the waiting reports.
#[derive(Debug)]
pub struct Sender {
    /// The counts of the buckets when they were last read.
    counted: Vec<u8>,
    /// When all buckets were last read.
    looked_ms: u64,
    waiting: [Waiting; BUCKETS],
    /// The bucket from which the next report is taken, if there is one in it.
    next: usize,
    sent: Option<Sent>,
    backoff: Backoff,
    /// The pauses between reports that were refused before.
    refusals: Backoff,
    /// How many attempts in a row were not answered in a short time.
    timeouts: u32,
    /// The status of the failure that was last logged since a report was accepted.
    logged: Option<u16>,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            counted: Vec::new(),
            looked_ms: 0,
            waiting: [Waiting::default(); BUCKETS],
            next: 0,
            sent: None,
            backoff: Backoff::new(LONGEST_PAUSE_MS),
            refusals: Backoff::new(LONGEST_PAUSE_MS),
            timeouts: 0,
            logged: None,
        }
    }
}

impl Sender {
    /// Sends the next report, if there is one and none is being sent. Costs one read while nothing is new.
    pub fn send(&mut self, host: &impl Host, now_ms: u64) {
        self.look(host, now_ms);
        host.record(Metric::OutboxDepth, self.waiting.iter().map(|waiting| waiting.all).sum::<usize>() as u64);
        let find = |wanted: &dyn Fn(&Waiting) -> bool| {
            let mut buckets = (self.next..BUCKETS).chain(0..self.next);
            buckets.find(|bucket| self.waiting.get(*bucket).is_some_and(wanted))
        };
        let new = find(&|waiting| waiting.all > waiting.refused);
        let again = || find(&|waiting| waiting.refused > 0).filter(|_| self.refusals.is_over(now_ms));
        let bucket = new.or_else(again);
        let Some(bucket) = bucket.filter(|_| self.sent.is_none() && self.backoff.may_call(host, now_ms)) else {
            return;
        };
        let value = host.get(&outbox_key(bucket));
        let Some(line) = lines(&value.bytes).find(|line| was_refused(line) == new.is_none()).map(<[u8]>::to_vec) else {
            // Another root that held the lease for a while has sent it.
            return self.set_waiting(bucket, Waiting::count(&value.bytes));
        };
        let timeout_ms = if self.timeouts < SHORT_TIMEOUTS { TIMEOUT_MS } else { LONG_TIMEOUT_MS };
        let (path, body) = ("/v1/kills".to_owned(), body(&line, now_ms));
        match host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms }) {
            Some(call) => self.sent = Some(Sent { call, at_ms: now_ms, bucket, line }),
            None => {
                self.backoff.fail(host, now_ms);
            }
        }
    }

    /// Handles the answer to a report. Returns false if the call was not a report.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: &Option<Incoming>) -> bool {
        let Some(sent) = self.sent.take_if(|sent| sent.call == call) else { return false };
        let now_ms = host.steady_ms();
        let kill_id = member(&sent.line, "kill_id");
        let is_receipt = |answer: &Incoming| {
            (200..300).contains(&answer.status) && !kill_id.is_empty() && member(&answer.body, "kill_id") == kill_id
        };
        // Envoy's timers begin with the event before this one, which may be a moment earlier.
        let is_late = now_ms + 100 >= sent.at_ms + TIMEOUT_MS;
        if !is_late {
            self.timeouts = 0;
        }
        match answer {
            Some(answer) if is_receipt(answer) => {
                self.remove(host, &sent, None);
                self.backoff.recover(host);
                if was_refused(&sent.line) {
                    self.refusals.forget();
                }
                self.logged = None;
            }
            Some(answer) if is_refusal(answer.status) => self.refuse(host, &sent, answer.status, now_ms),
            Some(answer) => self.fail(host, &sent, answer.status, now_ms),
            None => {
                if is_late {
                    self.timeouts += 1;
                    // Perhaps only this connection is dead. The next attempt does not wait longer because of it.
                    self.backoff.forget();
                }
                self.fail(host, &sent, 0, now_ms);
            }
        }
        true
    }

    /// Puts a report behind the others that were refused.
    fn refuse(&mut self, host: &impl Host, sent: &Sent, status: u16, now_ms: u64) {
        let report = sent.line.trim_ascii_start();
        if !was_refused(&sent.line) {
            log::warn!("the sidecar refuses a kill report ({status}): {}", without_excerpt(report));
        }
        self.put_back(host, sent, &[b" ", report].concat());
        self.refusals.postpone(host, now_ms);
        self.backoff.rest(host, now_ms);
    }

    /// Lets all reports wait. `status` is 0 if there was no answer.
    fn fail(&mut self, host: &impl Host, sent: &Sent, status: u16, now_ms: u64) {
        self.put_back(host, sent, &sent.line);
        self.backoff.fail(host, now_ms);
        if self.logged.replace(status) != Some(status) {
            log_failure(status);
        }
    }

    /// Puts a report behind the others, which go first next time.
    fn put_back(&mut self, host: &impl Host, sent: &Sent, line: &[u8]) {
        self.remove(host, sent, Some(line));
        self.next = (sent.bucket + 1) % BUCKETS;
    }

    /// Sends the next report as soon as the gate allows it: the sidecar answers again.
    pub fn hurry(&mut self) {
        self.backoff.forget();
        self.refusals.forget();
    }

    /// Whether a report is being sent.
    #[cfg(test)]
    pub fn is_sending(&self) -> bool {
        self.sent.is_some()
    }

    /// Counts the reports in the buckets that have new ones.
    fn look(&mut self, host: &impl Host, now_ms: u64) {
        let counted = host.get(OUTBOX_COUNT_KEY).bytes;
        let (is_new, is_due) = (counted != self.counted, now_ms >= self.looked_ms + LOOK_MS);
        if is_due {
            self.looked_ms = now_ms;
        }
        if is_new || is_due {
            for (bucket, waiting) in self.waiting.iter_mut().enumerate() {
                if is_due || counted.get(bucket) != self.counted.get(bucket) {
                    *waiting = Waiting::count(&host.get(&outbox_key(bucket)).bytes);
                }
            }
            self.counted = counted;
        }
    }

    /// Takes a report out of its bucket, or puts it at the end, where it waits for another attempt. Does nothing if another
    /// root has taken it out.
    fn remove(&mut self, host: &impl Host, sent: &Sent, put_back: Option<&[u8]>) {
        let mut left = Waiting::default();
        update_persistently(host, &outbox_key(sent.bucket), |value| {
            let others = lines(&value.bytes).filter(|line| *line != sent.line);
            let put_back = put_back.filter(|_| lines(&value.bytes).any(|line| line == sent.line));
            let bytes = others.chain(put_back).collect::<Vec<_>>().join(&b'\n');
            left = Waiting::count(&bytes);
            Some(bytes).filter(|bytes| *bytes != value.bytes)
        });
        self.set_waiting(sent.bucket, left);
    }

    fn set_waiting(&mut self, bucket: usize, reports: Waiting) {
        if let Some(waiting) = self.waiting.get_mut(bucket) {
            *waiting = reports;
        }
    }
}

/// Whether an answer with this status says that the sidecar works and does not accept this report: it does not understand
/// it, or cannot read what is stored of its agent. A wrong token and a busy sidecar are something else.
fn is_refusal(status: u16) -> bool {
    status == 500 || (400..500).contains(&status) && ![401, 403, 408, 429].contains(&status)
}

fn log_failure(status: u16) {
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
