//! What one worker tells the sidecar about the calls of guarded agents, so that it can recognise a loop that a load
//! balancer spreads over several Envoys.
//!
//! The buffer is bounded and may lose data, and nothing waits for it: this Envoy's own windows decide without it. Calls that
//! could not be told within [`MAX_AGE_MS`] are dropped, because the sidecar goes by the time of arrival, and an outage
//! would make a slow agent look like a fast one. Every call and every answer that is dropped is counted.

use std::rc::Rc;

use super::backoff::Backoff;
use crate::detect::score::Score;
use crate::detect::window::Call;
use crate::entries::{ITEM_BYTES, Item, Kind, VERSION, append_base64};
use crate::fingerprint::hash_bytes;
use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::metrics::Metric;
use crate::turn::Answer;
use crate::wire::Usage;
use crate::worker::Worker;

/// How often a worker sends, if there is anything to tell.
const INTERVAL_MS: u64 = 150;
/// How many bytes of calls, answers and agents' ids the buffer of a worker holds. In base64 they are half a megabyte at
/// most, and the sidecar accepts one.
const MAX_BYTES: usize = 256 * 1024;
/// How long anything waits in the buffer.
const MAX_AGE_MS: u64 = 2_000;
/// How long a report may take.
const TIMEOUT_MS: u64 = 2_000;
/// The longest pause between two attempts, before jitter.
const LONGEST_PAUSE_MS: u64 = 3_000;
/// How long a sidecar that does not know these reports is not asked again.
const UNKNOWN_MS: u64 = 60_000;

/// The calls and answers of one agent.
struct Pending {
    /// The hash of the id, by which the agent is found among the others.
    hash: u64,
    agent_id: String,
    generation: u64,
    bytes: Vec<u8>,
}

/// The calls and answers that one worker has not told yet.
pub struct EntryBuffer {
    is_on: bool,
    /// A list is as fast as a map for so few agents, and takes much less code.
    agents: Vec<Pending>,
    /// How many bytes the agents take.
    bytes: usize,
    /// How many calls and answers they have.
    items: u64,
    /// When the root first saw that there was something, in [steady](Host::steady_ms) milliseconds.
    since_ms: Option<u64>,
    /// The number of the latest call.
    number: u32,
    dropped: u64,
}

impl EntryBuffer {
    /// Creates an empty buffer. It takes nothing if the operator has switched the fleet's detection off.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, agents: Vec::new(), bytes: 0, items: 0, since_ms: None, number: 0, dropped: 0 }
    }

    /// Adds a call. Returns the number under which its answer must be added, or 0 if the sidecar is not told.
    #[inline(never)]
    pub fn add_call(&mut self, agent: (&str, u64), kind: Kind, call: Call, score: &Score) -> u32 {
        let number = self.number.wrapping_add(1).max(1);
        let half_points = u16::try_from(score.half_points).unwrap_or(u16::MAX);
        if !self.add(agent, &Item { kind, number, half_points, call }) {
            return 0;
        }
        self.number = number;
        number
    }

    /// Adds the answer to a call, which ended at this time.
    #[inline(never)]
    pub fn add_answer(&mut self, agent: (&str, u64), number: u32, answer: Answer, usage: Usage, at_ms: u64) {
        if number > 0 {
            let call = Call { at_ms, answer, usage, ..Call::default() };
            self.add(agent, &Item { kind: Kind::Answer, number, half_points: 0, call });
        }
    }

    fn add(&mut self, (agent_id, generation): (&str, u64), item: &Item) -> bool {
        if !self.is_on {
            return false;
        }
        if self.bytes + ITEM_BYTES + agent_id.len() > MAX_BYTES {
            self.dropped += 1;
            return false;
        }
        self.bytes += ITEM_BYTES;
        self.items += 1;
        let hash = hash_bytes(agent_id.as_bytes());
        for agent in self.agents.iter_mut().rev() {
            if agent.hash == hash && agent.generation == generation && agent.agent_id == agent_id {
                item.encode(&mut agent.bytes);
                return true;
            }
        }
        let mut bytes = Vec::with_capacity(4 * ITEM_BYTES);
        item.encode(&mut bytes);
        self.bytes += agent_id.len();
        self.agents.push(Pending { hash, agent_id: agent_id.to_owned(), generation, bytes });
        true
    }

    /// Empties the buffer. Returns the number of calls and answers that were in it.
    fn clear(&mut self) -> u64 {
        self.agents.clear();
        self.bytes = 0;
        self.since_ms = None;
        std::mem::take(&mut self.items)
    }

    /// Returns what is in the buffer, which is not empty, as the JSON of an [`EntryReport`](crate::wire::EntryReport).
    ///
    /// It is written by hand, since the code for it is a quarter of what serde generates. The ids of agents contain nothing
    /// that would have to be escaped.
    fn report(&self, envoy: &str, sender: &str, sent_ms: u64) -> Vec<u8> {
        let envoy = serde_json::to_string(envoy).unwrap_or_default();
        let head = format!(
            "{{\"envoy\":{envoy},\"sender\":\"{sender}\",\"version\":{VERSION},\"sent_ms\":{sent_ms},\"agents\":["
        );
        let mut json = head.into_bytes();
        let mut before = "";
        for Pending { agent_id, generation, bytes, .. } in &self.agents {
            let agent = format!("{before}{{\"agent_id\":\"{agent_id}\",\"generation\":{generation},\"entries\":\"");
            json.extend_from_slice(agent.as_bytes());
            append_base64(bytes, &mut json);
            before = "\"},";
        }
        json.extend_from_slice(b"\"}]}");
        json
    }
}

/// Tells the sidecar what is in the buffer of one worker.
pub struct EntrySender {
    worker: Rc<Worker>,
    /// Names this worker until it is started again, since its numbers then begin again.
    sender: String,
    next_ms: u64,
    /// The report that is under way, and how many calls and answers it has.
    sent: Option<(CallId, u64)>,
    backoff: Backoff,
}

impl EntrySender {
    /// Creates a sender that sends with its first tick.
    pub fn new(worker: Rc<Worker>, host: &impl Host) -> Self {
        let sender = format!("{:016x}", host.random());
        Self { worker, sender, next_ms: 0, sent: None, backoff: Backoff::of_entries(LONGEST_PAUSE_MS) }
    }

    /// Sends what there is to tell, if it is time. One report is under way at a time.
    pub fn tick(&mut self, host: &impl Host, now_ms: u64) {
        let mut buffer = self.worker.entries.borrow_mut();
        let dropped = std::mem::take(&mut buffer.dropped);
        if dropped > 0 {
            host.count(Metric::EntriesDropped, dropped);
        }
        if buffer.items == 0 {
            return;
        }
        let since_ms = *buffer.since_ms.get_or_insert(now_ms);
        if now_ms < self.next_ms || self.sent.is_some() || !self.backoff.may_call(host, now_ms) {
            // Without a steady clock, the time of day is used, which may go back.
            if now_ms.saturating_sub(since_ms) > MAX_AGE_MS {
                host.count(Metric::EntriesDropped, buffer.clear());
            }
            return;
        }
        let body = buffer.report(&self.worker.envoy, &self.sender, now_ms);
        let items = buffer.clear();
        let path = "/v1/entries".to_owned();
        let sent = host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms: TIMEOUT_MS });
        self.next_ms = now_ms + INTERVAL_MS;
        self.sent = sent.map(|call| (call, items));
        if sent.is_none() {
            host.count(Metric::EntriesDropped, items);
            self.backoff.fail(host, now_ms);
        }
    }

    /// Handles the answer to a report.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: &Option<Incoming>) {
        let Some((_, items)) = self.sent.take_if(|(sent, _)| *sent == call) else { return };
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        if matches!(status, 200..300) {
            self.backoff.recover(host);
            return;
        }
        host.count(Metric::EntriesDropped, items);
        let now_ms = host.steady_ms();
        if status == 404 {
            // An older sidecar, which is well otherwise.
            self.backoff.recover(host);
            self.next_ms = now_ms + UNKNOWN_MS;
        } else {
            self.backoff.fail(host, now_ms);
        }
    }
}
