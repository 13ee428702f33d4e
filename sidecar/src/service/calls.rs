//! The calls that filters report, on their way into the database and out of it.
//!
//! They are what the story of a kill and the preview of settings are computed from. A report only adds its calls and
//! answers to memory, and they are written once a second together with the observations, in the same transaction. So a
//! kill never waits for them. Like observations they may be lost: those in memory are lost in a crash, and those beyond
//! [`MAX_PENDING`] are dropped.
//!
//! Each replica stores what was reported to it, so that every call is stored once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_kill_switch::entries::{ITEM_BYTES, Item, Kind};
use agent_kill_switch::wire::EntryReport;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fleet::{at_ms, items};
use super::{Result, Service};
use crate::model::{CallBatch, Millis, StoredCall};

/// The largest number of calls and answers in memory: 8 MB.
const MAX_PENDING: usize = 100_000;
/// How many batches one transaction writes, unless a single agent has more.
const PER_TRANSACTION: usize = 500;

/// The calls and answers that are not written yet.
#[derive(Default)]
pub(super) struct CallCollector {
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    agents: BTreeMap<String, Batches>,
    /// How many calls and answers all agents have.
    count: usize,
}

/// The batches of one agent, by generation and worker.
type Batches = BTreeMap<(u64, String), CallBatch>;

impl CallCollector {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the calls of an agent, because a person has deleted it.
    pub(super) fn forget(&self, agent_id: &str) {
        let mut pending = self.pending();
        let forgotten = pending.agents.remove(agent_id).unwrap_or_default();
        pending.count -= len(forgotten.values());
    }

    /// Adds a report that has just arrived.
    pub(super) fn add(&self, report: &EntryReport, arrived_ms: Millis) {
        let mut pending = self.pending();
        for agent in &report.agents {
            let bytes = STANDARD.decode(&agent.entries).unwrap_or_default();
            let is_known = |item: &&[u8; ITEM_BYTES]| Item::kind(item).is_some();
            let items: Vec<_> = bytes.as_chunks().0.iter().filter(is_known).collect();
            if pending.count + items.len() > MAX_PENDING {
                metrics::counter!("kill_switch_calls_dropped_total").increment(items.len() as u64);
                continue;
            }
            if items.is_empty() {
                continue;
            }
            pending.count += items.len();
            let batches = pending.agents.entry(agent.agent_id.clone()).or_default();
            let batch = batches.entry((agent.generation, report.sender.clone())).or_insert_with(|| CallBatch {
                generation: agent.generation,
                envoy: report.envoy.clone(),
                sender: report.sender.clone(),
                ..CallBatch::default()
            });
            (batch.sent_ms, batch.arrived_ms) = (report.sent_ms, arrived_ms);
            for item in items {
                batch.calls += u64::from(Item::kind(item) != Some(Kind::Answer));
                batch.items.extend_from_slice(item);
            }
        }
    }

    /// Takes the calls of the next agents.
    pub(super) fn take_batch(&self) -> BTreeMap<String, Vec<CallBatch>> {
        let mut pending = self.pending();
        let (mut taken, mut count) = (BTreeMap::new(), 0);
        while count < PER_TRANSACTION
            && let Some((agent_id, batches)) = pending.agents.pop_first()
        {
            count += batches.len();
            pending.count -= len(batches.values());
            taken.insert(agent_id, batches.into_values().collect());
        }
        taken
    }
}

/// Returns how many calls and answers there are.
fn len<'a>(batches: impl Iterator<Item = &'a CallBatch>) -> usize {
    batches.map(|batch| batch.items.len() / ITEM_BYTES).sum()
}

impl Service {
    /// Returns the latest stored calls of an agent in the order of their arrival, with their answers.
    pub async fn stored_calls(&self, agent_id: &str) -> Result<Vec<StoredCall>> {
        let batches = self.store.calls(agent_id).await?;
        let all = || {
            batches
                .iter()
                .flat_map(|(counting, batch)| items(&batch.items).into_iter().map(move |item| (counting, batch, item)))
        };
        let mut ends: HashMap<(&str, u32), Item> = HashMap::new();
        for (_, batch, item) in all().filter(|(_, _, item)| item.kind == Kind::Answer) {
            ends.insert((&batch.sender, item.number), item);
        }
        let mut seen = HashSet::new();
        let mut calls: Vec<_> = all()
            .filter(|(_, batch, item)| item.kind != Kind::Answer && seen.insert((&batch.sender, item.number)))
            .map(|(counting, batch, item)| StoredCall {
                generation: batch.generation,
                counting: *counting,
                envoy: batch.envoy.clone(),
                sender: batch.sender.clone(),
                at_ms: at_ms(batch.arrived_ms, batch.sent_ms, item.call.at_ms),
                item,
                end: ends.get(&(batch.sender.as_str(), item.number)).map(|end| (end.call.answer, end.call.at_ms)),
            })
            .collect();
        let excess = calls.len().saturating_sub(self.limits.calls_per_agent as usize);
        calls.drain(..excess);
        Ok(calls)
    }
}
