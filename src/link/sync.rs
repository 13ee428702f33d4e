//! Policies from the sidecar, by long poll.
//!
//! An answer is applied only if all of it can be read. While the sidecar is silent, the last known policies stay in force.
//! Shared data cannot be listed, so a full sync does not delete the agents that it does not name. Instead it starts a new
//! *round*, and records of older rounds no longer count.

use std::rc::Rc;

use super::backoff::Backoff;
use super::outbox;
use crate::agent::{delete, store_policy};
use crate::codec::Reader;
use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::identity::is_agent_id;
use crate::pause;
use crate::shared::{ROUND_KEY, SYNC_KEY, number, update};
use crate::wire::SyncAnswer;
use crate::worker::Worker;

/// How many polls may follow each other between two ticks. Pages of a full sync come one after the other, and a sidecar
/// that answers at once must not cause a storm of polls.
const POLLS_PER_TICK: u32 = 4;

/// How long a poll may take in addition to the time that the sidecar is asked to hold it.
const GRACE_MS: u64 = 4_000;
/// The longest pause between two attempts, before jitter. Together with [`GRACE_MS`], this is how long it takes to notice
/// that the sidecar can be reached again.
const LONGEST_PAUSE_MS: u64 = 3_000;

/// How far the sync has come, as stored in shared data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of the full sync that is in force.
    pub round: u32,
    /// The revision that has been applied.
    pub rev: u64,
    /// When the sidecar last answered, in [steady](Host::steady_ms) milliseconds.
    pub heard_ms: u64,
    /// Which life of the sidecar's database the revision belongs to.
    pub epoch: String,
}

impl Position {
    /// Reads the position. Returns `None` before the first sync.
    pub fn read(host: &impl Host) -> Option<Self> {
        Self::decode(&host.get(SYNC_KEY).bytes)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.round.to_le_bytes().to_vec();
        bytes.extend(self.rev.to_le_bytes());
        bytes.extend(self.heard_ms.to_le_bytes());
        bytes.extend(self.epoch.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (round, rev, heard_ms) = (reader.u32()?, reader.u64()?, reader.u64()?);
        Some(Self { round, rev, heard_ms, epoch: String::from_utf8(reader.rest().to_vec()).ok()? })
    }
}

/// Polls for policies and applies them.
pub struct PolicySync {
    worker: Rc<Worker>,
    polling: Option<CallId>,
    polls_left: u32,
    backoff: Backoff,
    /// How far a full sync has come whose pages are still arriving.
    unfinished: Option<Position>,
}

impl PolicySync {
    /// Creates a sync that has not polled yet.
    pub fn new(worker: Rc<Worker>) -> Self {
        Self { worker, polling: None, polls_left: 0, backoff: Backoff::new(LONGEST_PAUSE_MS), unfinished: None }
    }

    /// Whether the last poll failed.
    pub fn is_failing(&self) -> bool {
        self.backoff.is_failing()
    }

    /// Starts a poll if none is open.
    pub fn tick(&mut self, host: &impl Host, now_ms: u64) {
        self.polls_left = POLLS_PER_TICK;
        self.poll(host, now_ms);
    }

    /// Handles the answer to a poll. Returns false if the call was not a poll.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: &Option<Incoming>) -> bool {
        if self.polling.take_if(|polling| *polling == call).is_none() {
            return false;
        }
        let now_ms = host.steady_ms();
        match self.read(host, now_ms, answer) {
            Ok(()) => {
                if self.backoff.recover(host) {
                    log::info!("the sidecar answers again");
                }
            }
            Err(problem) => {
                self.unfinished = None;
                if self.backoff.fail(host, now_ms) {
                    log::warn!("no policy from the sidecar ({problem}): the last known policy stays in force");
                }
            }
        }
        true
    }

    /// Starts a poll if none is open, unless there were too many since the last tick.
    pub fn poll(&mut self, host: &impl Host, now_ms: u64) {
        if self.polling.is_some() || self.polls_left == 0 || !self.backoff.may_call(host, now_ms) {
            return;
        }
        self.polls_left -= 1;
        // After a failure the answer should come at once, whether there is news or not.
        let is_long = self.unfinished.is_none() && !self.backoff.is_failing();
        let wait = if is_long { self.worker.config.sync_wait_seconds } else { 0 };
        let position = self.unfinished.clone().or_else(|| Position::read(host)).unwrap_or_default();
        let (epoch, since) = (query_value(&position.epoch), position.rev);
        let envoy = query_value(&self.worker.envoy);
        self.polling = host.dispatch(&Outgoing {
            method: "GET",
            path: format!("/v1/sync?epoch={epoch}&since={since}&wait={wait}&envoy={envoy}"),
            body: Vec::new(),
            timeout_ms: u64::from(wait) * 1000 + GRACE_MS,
        });
        if self.polling.is_none() {
            self.backoff.fail(host, now_ms);
        }
    }

    fn read(&mut self, host: &impl Host, now_ms: u64, answer: &Option<Incoming>) -> Result<(), String> {
        match answer {
            None => Err("no answer".to_owned()),
            Some(answer) if answer.status == 304 => {
                update(host, SYNC_KEY, |value| {
                    let position = Position::decode(&value.bytes);
                    (position.map(|position| Position { heard_ms: now_ms, ..position }.encode()), ())
                });
                Ok(())
            }
            Some(answer) if answer.status == 200 => {
                // From a text, as everything else is: a second way to read would be compiled in addition.
                let answer = serde_json::from_str(&String::from_utf8_lossy(&answer.body))
                    .map_err(|error| format!("an answer that cannot be read: {error}"))?;
                self.apply(host, now_ms, answer)
            }
            Some(answer) => Err(format!("status {}", answer.status)),
        }
    }

    /// Applies an answer. If a record cannot be written, the position stays, so the same answer is asked for again.
    fn apply(&mut self, host: &impl Host, now_ms: u64, answer: SyncAnswer) -> Result<(), String> {
        // A full sync that starts over, in another database or in a restored one, is another full sync.
        let starts_over =
            |before: &mut Position| answer.full && (answer.epoch != before.epoch || answer.rev < before.rev);
        drop(self.unfinished.take_if(starts_over));
        let round = match (&self.unfinished, Position::read(host)) {
            // The records of this page would count as those of deleted agents.
            (Some(unfinished), _) if latest_round(host) != unfinished.round => {
                return Err("another worker has begun a full sync".to_owned());
            }
            (Some(unfinished), _) => unfinished.round,
            (None, Some(applied)) if !answer.full => applied.round,
            _ => new_round(host).ok_or("too many writers at once")?,
        };
        // First, so that no agent of this answer is stopped although the fleet is paused.
        pause::store(host, answer.paused_for_ms);
        for policy in answer.agents.iter().filter(|policy| is_agent_id(policy.agent_id.as_bytes())) {
            if let Some(report) = store_policy(host, policy, round).ok_or("too many writers at once")? {
                log::warn!("agent {} was deactivated here, and the sidecar says it is active", policy.agent_id);
                outbox::put(host, report.as_bytes(), report.as_bytes());
            }
        }
        for agent_id in answer.deleted.iter().filter(|agent_id| is_agent_id(agent_id.as_bytes())) {
            delete(host, agent_id).ok_or("too many writers at once")?;
        }
        let position = Position { round, rev: answer.rev, heard_ms: now_ms, epoch: answer.epoch };
        if (self.unfinished.is_some() || answer.full) && answer.more {
            // The records of the round before stay valid until the last page has arrived.
            self.unfinished = Some(position);
            return Ok(());
        }
        self.unfinished = None;
        update(host, SYNC_KEY, |_| (Some(position.encode()), ()));
        self.worker.round.set(Some(round));
        Ok(())
    }
}

/// Returns a number that no full sync had before, whether it was completed or not. The records of a full sync that was not
/// completed must not count in the next one.
fn new_round(host: &impl Host) -> Option<u32> {
    update(host, ROUND_KEY, |value| {
        let round = number(&value.bytes) + 1;
        (Some(round.to_le_bytes().to_vec()), round as u32)
    })
}

/// Returns the number of the full sync that was begun last.
fn latest_round(host: &impl Host) -> u32 {
    number(&host.get(ROUND_KEY).bytes) as u32
}

/// Percent-encodes a value for a query.
fn query_value(value: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte| if unreserved(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
}
