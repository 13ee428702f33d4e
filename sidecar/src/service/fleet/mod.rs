//! Loops that a load balancer spreads over several Envoys.
//!
//! Each Envoy reports the calls and answers of guarded agents several times a second. A report waits in memory for at most
//! [`PUBLISH_INTERVAL`] before it is passed to all replicas, so that each of them merges everything in the same order
//! ([`merger`]). A loop that calls of several Envoys make together is a kill like any other: it is recorded by the same
//! transaction as the report of an Envoy, once, however many replicas have found it, and filters hear of it by the sync.
//!
//! Reports may be lost: when a buffer is full, when the database is away, and in a crash. A loop that was found is not: its
//! report is repeated until it is recorded, unless more than [`MAX_UNRECORDED`] of them wait for the database.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_kill_switch::entries::{ITEM_BYTES, VERSION};
use agent_kill_switch::identity::is_agent_id;
use agent_kill_switch::wire::EntryReport;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::envoys::presentable;
use super::{Error, Result, Service};
use crate::clock::serialize_rfc3339;
use crate::model::{FleetMessage, Millis};
use crate::store::EntryBus;

mod agent;
mod merger;
mod reported;

use agent::{SERVING_MS, Trip};
use merger::Merger;
use reported::Reported;
pub(super) use reported::items;

/// How often a replica passes on what Envoys have reported to it.
pub(crate) const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);
/// How many bytes of reports wait in memory at most.
const MAX_PENDING_BYTES: usize = 4 * 1024 * 1024;
/// How many loops are kept that could not be recorded yet.
const MAX_UNRECORDED: usize = 1_000;
/// How many changed agents are read at a time.
const PAGE: u32 = 1_000;
/// The longest name of a sender, in bytes.
const MAX_SENDER: usize = 64;

const DROPPED: &str = "kill_switch_fleet_entries_dropped_total";
const LOOPS_FORGOTTEN: &str = "kill_switch_fleet_loops_forgotten_total";

/// The answer to a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EntryReceipt {
    /// Calls and answers that were accepted.
    pub accepted: u64,
    /// Calls and answers that were ignored: of another version, of a malformed agent id, or more than there is room for.
    pub ignored: u64,
}

/// What the Envoys see of an agent. It is serialised as the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetView {
    /// The score of the latest call among the calls of all Envoys. `None` if no Envoy has reported a call lately.
    pub score: Option<f64>,
    /// The Envoys that serve the agent, by name.
    pub envoys: Vec<EnvoyScore>,
}

/// What one Envoy sees of an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvoyScore {
    /// The name that the Envoy gives itself.
    pub envoy: String,
    /// The score of the latest call in the Envoy's own window.
    pub score: f64,
    /// When its latest call was reported.
    #[serde(rename = "last_call", serialize_with = "serialize_rfc3339")]
    pub last_call_ms: Millis,
}

#[derive(Default)]
struct Pending {
    messages: Vec<(Millis, FleetMessage)>,
    bytes: usize,
}

/// The state of this replica.
pub(super) struct Fleet {
    bus: Arc<dyn EntryBus>,
    pending: Mutex<Pending>,
    merger: Mutex<Merger>,
    /// The revision up to which the merger knows the policies.
    policies_rev: AtomicU64,
    /// Loops that are not recorded yet.
    unrecorded: tokio::sync::Mutex<Vec<Trip>>,
}

impl Fleet {
    pub(super) fn new(bus: Arc<dyn EntryBus>, rev: u64) -> Self {
        let (pending, merger) = (Mutex::default(), Mutex::default());
        Self { bus, pending, merger, policies_rev: AtomicU64::new(rev), unrecorded: tokio::sync::Mutex::default() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The list is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn merger(&self) -> MutexGuard<'_, Merger> {
        // A panic can only lose evidence.
        self.merger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an agent or a conversation that an Envoy has stopped by itself.
    pub(super) fn note_stopped(&self, agent_id: &str, conversation: Option<u64>, now_ms: Millis) {
        let message = FleetMessage::Stopped { agent_id: agent_id.to_owned(), conversation };
        self.pending().messages.push((now_ms, message));
    }
}

/// How many items there are in a text of base64.
fn count(entries: &str) -> u64 {
    (entries.len() / 4 * 3 / ITEM_BYTES) as u64
}

fn count_all(messages: &[FleetMessage]) -> u64 {
    let of_message = |message: &FleetMessage| match message {
        FleetMessage::Entries { report, .. } => report.agents.iter().map(|agent| count(&agent.entries)).sum(),
        FleetMessage::Stopped { .. } => 0,
    };
    messages.iter().map(of_message).sum()
}

impl Service {
    /// Accepts a report of an Envoy. It is passed on by the next [`Service::publish_entries`].
    pub fn take_entries(&self, mut report: EntryReport) -> EntryReceipt {
        let all: u64 = report.agents.iter().map(|agent| count(&agent.entries)).sum();
        let is_usable = report.version == VERSION && report.sender.len() <= MAX_SENDER;
        report.agents.retain(|agent| is_usable && is_agent_id(agent.agent_id.as_bytes()));
        report.envoy = presentable(&report.envoy);
        let accepted: u64 = report.agents.iter().map(|agent| count(&agent.entries)).sum();
        let bytes: usize = report.agents.iter().map(|agent| agent.entries.len() + agent.agent_id.len()).sum();
        let mut pending = self.fleet.pending();
        if pending.bytes + bytes > MAX_PENDING_BYTES {
            metrics::counter!(DROPPED).increment(all);
            return EntryReceipt { accepted: 0, ignored: all };
        }
        if accepted > 0 {
            let now_ms = self.now();
            if self.limits.calls_per_agent > 0 {
                self.calls.add(&report, now_ms);
            }
            pending.bytes += bytes;
            pending.messages.push((now_ms, FleetMessage::Entries { report, waited_ms: 0 }));
        }
        metrics::counter!(DROPPED).increment(all - accepted);
        EntryReceipt { accepted, ignored: all - accepted }
    }

    /// Passes on to all replicas what has been reported here.
    pub async fn publish_entries(&self) -> Result<()> {
        let pending = std::mem::take(&mut *self.fleet.pending());
        if pending.messages.is_empty() {
            return Ok(());
        }
        let now_ms = self.now();
        let sent = |(at_ms, message): (Millis, FleetMessage)| match message {
            FleetMessage::Entries { report, .. } => {
                FleetMessage::Entries { report, waited_ms: now_ms.saturating_sub(at_ms) }
            }
            stopped @ FleetMessage::Stopped { .. } => stopped,
        };
        let messages: Vec<_> = pending.messages.into_iter().map(sent).collect();
        let entries = count_all(&messages);
        let published = self.fleet.bus.publish(messages).await;
        if published.is_err() {
            metrics::counter!(DROPPED).increment(entries);
        }
        Ok(published?)
    }

    /// Waits for a moment for what replicas have passed on, merges it, and stops what loops.
    pub async fn merge_entries(&self) -> Result<()> {
        let messages = self.fleet.bus.receive().await?;
        self.follow_policies().await?;
        let reports: Vec<_> = messages.iter().filter_map(entries_of).collect();
        let ids: BTreeSet<_> = reports.iter().flat_map(|report| &report.agents).map(|agent| &agent.agent_id).collect();
        self.read_policies(ids).await?;
        let trips = self.merge(&messages);
        let recorded = self.record_trips(trips).await;
        metrics::counter!("kill_switch_fleet_entries_total").increment(count_all(&messages));
        recorded
    }

    /// Records loops, and those that could not be recorded before.
    async fn record_trips(&self, trips: Vec<Trip>) -> Result<()> {
        let mut unrecorded = self.fleet.unrecorded.lock().await;
        unrecorded.extend(trips);
        if unrecorded.len() > MAX_UNRECORDED {
            let forgotten = unrecorded.split_off(MAX_UNRECORDED);
            metrics::counter!(LOOPS_FORGOTTEN).increment(forgotten.len() as u64);
            tracing::error!(
                forgotten = forgotten.len(),
                "loops over several Envoys cannot be recorded and are forgotten"
            );
        }
        while let Some(trip) = unrecorded.first() {
            match self.record_trip(trip).await {
                // Tried again with the next messages, or in a second.
                Err(Error::Store(error)) if !error.is_permanent() => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, agent_id = trip.report.agent_id, "a loop over several Envoys is ignored")
                }
                Ok(()) => {}
            }
            unrecorded.remove(0);
        }
        Ok(())
    }

    /// Tells the merger of every policy that has changed.
    async fn follow_policies(&self) -> Result<()> {
        let rev = self.rev();
        let mut since = self.fleet.policies_rev.load(Ordering::SeqCst);
        if since > rev {
            // The database has gone back in time.
            *self.fleet.merger() = Merger::default();
            since = rev;
        }
        while since < rev {
            let changed = self.store.changes(since, PAGE).await?;
            let mut merger = self.fleet.merger();
            for agent in changed.agents.iter().filter(|agent| merger.agent(agent.id()).is_some()).collect::<Vec<_>>() {
                if agent.deleted { merger.remove(agent.id()) } else { merger.set_policy(&agent.policy) }
            }
            since = changed.last_rev.filter(|_| changed.more).unwrap_or(rev);
        }
        self.fleet.policies_rev.store(since, Ordering::SeqCst);
        Ok(())
    }

    /// Reads the policies of agents that the merger does not know yet.
    async fn read_policies(&self, ids: BTreeSet<&String>) -> Result<()> {
        let unknown: Vec<_> = {
            let merger = self.fleet.merger();
            ids.into_iter().filter(|id| merger.agent(id).is_none()).collect()
        };
        for id in unknown {
            match self.store.agent(id).await {
                Ok(Some(agent)) if !agent.deleted => self.fleet.merger().set_policy(&agent.policy),
                Ok(_) => {}
                // The calls of the other agents are merged nevertheless.
                Err(error) if error.is_permanent() => tracing::warn!(%error, agent_id = id, "an agent cannot be read"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Merges messages that have arrived together.
    fn merge(&self, messages: &[FleetMessage]) -> Vec<Trip> {
        let now_ms = self.now();
        let mut merger = self.fleet.merger();
        let mut all: Vec<Reported<'_>> = Vec::new();
        for message in messages {
            match message {
                FleetMessage::Entries { report, waited_ms } => {
                    all.extend(parts(report, now_ms.saturating_sub(*waited_ms)));
                }
                FleetMessage::Stopped { agent_id, conversation } => {
                    all.retain(|reported| reported.agent_id != agent_id);
                    merger.forget(agent_id, *conversation);
                }
            }
        }
        let mut trips: Vec<_> = all.iter().flat_map(|reported| merger.add_answers(reported)).collect();
        trips.extend(all.iter().filter_map(|reported| merger.add_calls(reported)));
        trips
    }

    /// Records a loop.
    async fn record_trip(&self, trip: &Trip) -> Result<()> {
        let receipt = self.take_fleet_kill(trip.report.clone(), &trip.calls).await?;
        let agent_id = &trip.report.agent_id;
        tracing::info!(
            agent_id,
            envoys = trip.report.envoy,
            outcome = receipt.outcome.as_str(),
            "a loop over several Envoys"
        );
        if let Some(agent) = self.store.agent(agent_id).await?.filter(|agent| !agent.deleted) {
            self.fleet.merger().set_policy(&agent.policy);
        }
        Ok(())
    }

    /// Returns what the Envoys see of an agent.
    pub fn fleet_view(&self, agent_id: &str) -> FleetView {
        let now_ms = self.now();
        let merger = self.fleet.merger();
        let Some(agent) = merger.agent(agent_id) else { return FleetView::default() };
        let serving = agent.parts.iter().filter(|part| now_ms.abs_diff(part.last_ms) < SERVING_MS);
        let mut envoys: Vec<_> = serving
            .map(|part| EnvoyScore { envoy: part.envoy.to_string(), score: part.score, last_call_ms: part.last_ms })
            .collect();
        envoys.sort_by(|one, other| one.envoy.cmp(&other.envoy));
        let score = agent.score.map(|score| score.value()).filter(|_| !envoys.is_empty());
        FleetView { score, envoys }
    }

    /// Returns how many agents and windows are in memory for loops over several Envoys.
    pub fn fleet_size(&self) -> (usize, usize) {
        self.fleet.merger().size()
    }
}

fn entries_of(message: &FleetMessage) -> Option<&EntryReport> {
    match message {
        FleetMessage::Entries { report, .. } => Some(report),
        FleetMessage::Stopped { .. } => None,
    }
}

/// Splits a report by agent.
fn parts(report: &EntryReport, arrived_ms: Millis) -> impl Iterator<Item = Reported<'_>> {
    let (envoy, sender): (Arc<str>, Arc<str>) = (report.envoy.as_str().into(), report.sender.as_str().into());
    report.agents.iter().map(move |agent| Reported {
        envoy: Arc::clone(&envoy),
        sender: Arc::clone(&sender),
        agent_id: &agent.agent_id,
        generation: agent.generation,
        items: items(&STANDARD.decode(&agent.entries).unwrap_or_default()),
        sent_ms: report.sent_ms,
        arrived_ms,
    })
}
