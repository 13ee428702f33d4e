//! Policy from the sidecar, and reports to it, off the request path.
//!
//! Every root ticks; one of them holds a lease in shared data and speaks for the whole Envoy: it holds a long poll open
//! for policy changes and empties the outbox. When it dies, another takes over as the lease runs out. What each worker
//! has seen it tells by itself. An answer is applied only if all of it parses; the last known policy stays in force
//! while the sidecar is silent.

use std::rc::Rc;

use crate::codec::Reader;
use crate::decode::json::Json;
use crate::decode::policies::sync_answer;
use crate::host::{CallId, Host, Incoming, Level, Outgoing};
use crate::link::outbox::{self, Outbox, Waiting};
use crate::metrics::Metric;
use crate::policy::{Record, is_agent_id};
use crate::state::{AgentKey, Kept, LEASE_KEY, Position, SYNC_KEY, insist, update};
use crate::wire::{AgentPolicy, SyncAnswer};
use crate::worker::Worker;

/// How often the root looks after everything.
pub const TICK_MS: u64 = 50;
/// How long a lease lasts unless renewed.
const LEASE_MS: u64 = 3_000;
/// A root this much younger than the holder has a newer configuration, and takes over.
const YOUNGER_MS: u64 = 5_000;
/// Polls that may follow each other between two ticks: pages come fast, and a sidecar that never waits is no storm.
const POLLS_PER_TICK: u32 = 4;
/// What a call may take beside the time the sidecar is asked to hold it.
const GRACE_MS: u64 = 10_000;

/// The root's part of the filter.
pub struct Root {
    worker: Rc<Worker>,
    id: u64,
    born_ms: u64,
    polling: Option<CallId>,
    polls_left: u32,
    poll_backoff: Backoff,
    /// The round of a full sync whose pages are still coming, and how far it has come.
    filling: Option<Position>,
    outbox: Outbox,
    sending: Option<(CallId, Waiting)>,
    send_backoff: Backoff,
    next_report_ms: u64,
}

impl Root {
    /// A root that has just been configured.
    pub fn new(worker: Rc<Worker>, host: &impl Host) -> Self {
        let born_ms = host.now_ms();
        worker.ticked_ms.set(born_ms);
        Self {
            worker,
            id: host.random(),
            born_ms,
            polling: None,
            polls_left: 0,
            poll_backoff: Backoff::default(),
            filling: None,
            outbox: Outbox::default(),
            sending: None,
            send_backoff: Backoff::default(),
            next_report_ms: 0,
        }
    }

    /// Every [`TICK_MS`].
    pub fn tick(&mut self, host: &impl Host) {
        let now_ms = host.now_ms();
        self.worker.ticked_ms.set(now_ms);
        let position = Position::decode(&host.get(SYNC_KEY).bytes);
        self.worker.round.set(position.as_ref().map(|position| position.round));
        outbox::retry_overflow(host, &self.worker);
        self.report_seen(host, now_ms);
        if self.holds_lease(host, now_ms) {
            let heard_ms = position.as_ref().map_or(self.born_ms, |position| position.heard_ms);
            host.record(Metric::SyncAgeSeconds, now_ms.saturating_sub(heard_ms) / 1000);
            self.polls_left = POLLS_PER_TICK;
            self.poll(host, now_ms);
            self.send(host, now_ms);
        }
    }

    /// A call came back, or failed.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: Option<Incoming>) {
        let now_ms = host.now_ms();
        if self.polling == Some(call) {
            self.polling = None;
            self.polled(host, now_ms, answer.filter(|answer| answer.from_sidecar));
            return self.poll(host, now_ms);
        }
        if let Some((_, waiting)) = self.sending.take_if(|(sent, _)| *sent == call) {
            self.sent(host, now_ms, &waiting, answer.filter(|answer| answer.from_sidecar));
            self.send(host, now_ms);
        }
    }

    fn holds_lease(&self, host: &impl Host, now_ms: u64) -> bool {
        let held = update(host, LEASE_KEY, |stored| {
            let renewed = Lease { holder: self.id, born_ms: self.born_ms, until_ms: now_ms + LEASE_MS };
            match Lease::decode(&stored.bytes) {
                Some(lease) if lease.holder == self.id && lease.until_ms > now_ms + LEASE_MS / 2 => (None, true),
                Some(lease) if lease.holder != self.id && !lease.yields_to(self.born_ms, now_ms) => (None, false),
                _ => (Some(renewed.encode()), true),
            }
        });
        held == Some(true)
    }

    fn poll(&mut self, host: &impl Host, now_ms: u64) {
        if self.polling.is_some() || self.polls_left == 0 || !self.poll_backoff.is_over(now_ms) {
            return;
        }
        self.polls_left -= 1;
        let applied = Position::decode(&host.get(SYNC_KEY).bytes).unwrap_or_default();
        let position = self.filling.as_ref().unwrap_or(&applied);
        let wait = if self.filling.is_some() { 0 } else { self.worker.config.sync_wait_seconds };
        let call = Outgoing {
            method: "GET",
            path: format!(
                "/v1/sync?epoch={}&since={}&wait={wait}&envoy={}",
                query(&position.epoch),
                position.rev,
                query(&self.worker.envoy)
            ),
            body: Vec::new(),
            timeout_ms: u64::from(wait) * 1000 + GRACE_MS,
        };
        self.polling = host.dispatch(&call);
        if self.polling.is_none() {
            self.poll_backoff.fail(now_ms, host.random());
        }
    }

    fn polled(&mut self, host: &impl Host, now_ms: u64, answer: Option<Incoming>) {
        let result = match answer {
            None => Err("no answer".to_owned()),
            Some(answer) if answer.status == 304 => {
                self.heard(host, now_ms);
                Ok(())
            }
            Some(answer) if answer.status == 200 => sync_answer(&answer.body)
                .map_err(|field| format!("an answer that cannot be read: {field}"))
                .and_then(|answer| self.apply(host, now_ms, answer)),
            Some(answer) => Err(format!("status {}", answer.status)),
        };
        match result {
            Ok(()) if self.poll_backoff.recover() => host.log(Level::Info, "the sidecar answers again"),
            Ok(()) => {}
            Err(problem) => {
                self.filling = None;
                if self.poll_backoff.fail(now_ms, host.random()) {
                    let line = format!("no policy from the sidecar ({problem}): the last known policy stays in force");
                    host.log(Level::Warn, &line);
                }
            }
        }
    }

    fn heard(&self, host: &impl Host, now_ms: u64) {
        update(host, SYNC_KEY, |stored| match Position::decode(&stored.bytes) {
            Some(position) => (Some(Position { heard_ms: now_ms, ..position }.encode()), ()),
            None => (None, ()),
        });
    }

    /// Applies an answer. An error where a record could not be written: the same is then asked for again.
    fn apply(&mut self, host: &impl Host, now_ms: u64, answer: SyncAnswer) -> Result<(), String> {
        let applied = Position::decode(&host.get(SYNC_KEY).bytes);
        let round = match (&self.filling, &applied) {
            (Some(filling), _) => filling.round,
            (None, Some(applied)) if answer.full => applied.round.wrapping_add(1),
            (None, Some(applied)) => applied.round,
            (None, None) => 1,
        };
        for policy in answer.agents.iter().filter(|policy| is_agent_id(policy.agent_id.as_bytes())) {
            keep(host, policy, round).ok_or("too many writers at once")?;
        }
        for agent in answer.deleted.iter().filter(|agent| is_agent_id(agent.as_bytes())) {
            insist(host, AgentKey::new(agent).as_str(), |stored| (!stored.bytes.is_empty()).then(Vec::new))
                .ok_or("too many writers at once")?;
        }
        let position = Position { round, rev: answer.rev, heard_ms: now_ms, epoch: answer.epoch };
        let is_filling = self.filling.is_some() || answer.full;
        if is_filling && answer.more {
            // Older records stay valid until the last page is here.
            self.filling = Some(position);
            return Ok(());
        }
        self.filling = None;
        update(host, SYNC_KEY, |_| (Some(position.encode()), ()));
        self.worker.round.set(Some(round));
        Ok(())
    }

    fn send(&mut self, host: &impl Host, now_ms: u64) {
        if self.sending.is_some() || !self.send_backoff.is_over(now_ms) {
            return;
        }
        let Some(waiting) = self.outbox.next(host) else { return };
        let call = Outgoing {
            method: "POST",
            path: "/v1/kills".to_owned(),
            body: waiting.bytes.clone(),
            timeout_ms: GRACE_MS,
        };
        match host.dispatch(&call) {
            Some(id) => self.sending = Some((id, waiting)),
            None => {
                self.send_backoff.fail(now_ms, host.random());
            }
        }
    }

    fn sent(&mut self, host: &impl Host, now_ms: u64, waiting: &Waiting, answer: Option<Incoming>) {
        match answer.map(|answer| answer.status) {
            Some(200..300) => {
                self.outbox.accepted(host, waiting);
                self.send_backoff.recover();
            }
            // It will never be taken as it is: better a line in the log than a report that blocks the others for ever.
            // A wrong token and "not now" can be mended.
            Some(status @ 400..500) if ![401, 403, 408, 429].contains(&status) => {
                let report = loggable(&waiting.bytes);
                host.log(Level::Warn, &format!("the sidecar refuses a kill report ({status}): {report}"));
                self.outbox.accepted(host, waiting);
            }
            status => {
                self.outbox.refused();
                if self.send_backoff.fail(now_ms, host.random()) {
                    let status = status.map_or("no answer".to_owned(), |status| format!("status {status}"));
                    host.log(Level::Warn, &format!("a kill report waits for the sidecar ({status})"));
                }
            }
        }
    }

    fn report_seen(&mut self, host: &impl Host, now_ms: u64) {
        if now_ms < self.next_report_ms {
            return;
        }
        self.next_report_ms = now_ms + u64::from(self.worker.config.observe_interval_ms);
        let Some(seen) = self.worker.seen.borrow_mut().take(&self.worker.envoy) else { return };
        if let Ok(body) = serde_json::to_vec(&seen) {
            let path = "/v1/observations".to_owned();
            host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms: GRACE_MS });
        }
    }
}

/// A report for the log, where no prompt text may go.
fn loggable(report: &[u8]) -> String {
    let members = Json::root(report).into_iter().flat_map(Json::members).flatten();
    let bare = members.filter(|(name, _)| !name.is("excerpt"));
    let bare = bare.map(|(name, value)| [b"\"", name.raw(), b"\":", value.text()].concat());
    format!("{{{}}}", String::from_utf8_lossy(&bare.collect::<Vec<_>>().join(&b',')))
}

/// Keeps what the sidecar says of one agent. Nothing where others write all the time.
fn keep(host: &impl Host, policy: &AgentPolicy, round: u32) -> Option<()> {
    insist(host, AgentKey::new(&policy.agent_id).as_str(), |stored| {
        let before = Kept::decode(&stored.bytes);
        let record = Record::updated(before.as_ref().map(|kept| &kept.record), policy);
        let kept = Kept { record, round };
        (before != Some(kept)).then(|| kept.encode(&stored.bytes))
    })
}

/// Who speaks for this Envoy.
struct Lease {
    holder: u64,
    born_ms: u64,
    until_ms: u64,
}

impl Lease {
    fn yields_to(&self, born_ms: u64, now_ms: u64) -> bool {
        now_ms >= self.until_ms || born_ms > self.born_ms + YOUNGER_MS
    }

    fn encode(&self) -> Vec<u8> {
        [self.holder, self.born_ms, self.until_ms].iter().flat_map(|part| part.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self { holder: reader.u64()?, born_ms: reader.u64()?, until_ms: reader.u64()? })
    }
}

/// Waits longer after each failure, never the same time as others do.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
    until_ms: u64,
}

impl Backoff {
    const FIRST_MS: u64 = 200;
    const LONGEST_MS: u64 = 10_000;

    fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms
    }

    /// Notes a failure and says whether it was the first of its row.
    fn fail(&mut self, now_ms: u64, random: u64) -> bool {
        let delay = (Self::FIRST_MS << self.failures.min(10)).min(Self::LONGEST_MS);
        self.until_ms = now_ms + delay / 2 + random % (delay / 2 + 1);
        self.failures += 1;
        self.failures == 1
    }

    /// Notes a success and says whether there were failures before it.
    fn recover(&mut self) -> bool {
        std::mem::take(self).failures > 0
    }
}

/// A value of a query, escaped.
fn query(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
