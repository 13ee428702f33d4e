//! The calls that filters report, on their way into the database and out of it.
//!
//! They are what the story of a kill and the preview of settings are computed from. A report only adds its calls and
//! answers to memory, and they are written once a second together with the observations, in the same transaction. So a
//! kill never waits for them. Like observations they may be lost: those in memory are lost in a crash, and those beyond
//! [`MAX_BYTES`] are dropped.
//!
//! Each replica stores what was reported to it, so that every call is stored once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_kill_switch::entries::{ITEM_BYTES, Item, Kind};
use agent_kill_switch::wire::EntryReport;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fleet::items;
use super::{Result, Service};
use crate::model::{CallBatch, Millis, StoredCall};

/// How many bytes of memory are used at most.
const MAX_BYTES: usize = 16 << 20;
/// What a batch takes in addition to its items.
const BATCH_BYTES: usize = 400;
/// How many batches one transaction writes, unless a single agent has more.
const PER_TRANSACTION: usize = 500;

/// The calls and answers that are not written yet.
#[derive(Default)]
pub(super) struct CallCollector {
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    /// By agent, generation and worker.
    batches: BTreeMap<(String, u64, String), CallBatch>,
    /// How many bytes they take.
    bytes: usize,
}

impl CallCollector {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the calls of an agent, because a person has deleted it.
    pub(super) fn forget(&self, agent_id: &str) {
        let mut pending = self.pending();
        pending.batches.retain(|(id, ..), _| id != agent_id);
        pending.bytes = pending.batches.values().map(bytes_of).sum();
    }

    /// Adds a report that has just arrived.
    pub(super) fn add(&self, report: &EntryReport, arrived_ms: Millis) {
        let Pending { batches, bytes: pending } = &mut *self.pending();
        for agent in &report.agents {
            let bytes = STANDARD.decode(&agent.entries).unwrap_or_default();
            let is_known = |item: &&[u8; ITEM_BYTES]| Item::kind(item).is_some();
            let items: Vec<_> = bytes.as_chunks().0.iter().filter(is_known).collect();
            if items.is_empty() {
                continue;
            }
            if *pending + bytes.len() + BATCH_BYTES > MAX_BYTES {
                metrics::counter!("kill_switch_calls_dropped_total").increment(items.len() as u64);
                continue;
            }
            let key = (agent.agent_id.clone(), agent.generation, report.sender.clone());
            let batch = batches.entry(key).or_default();
            *pending += items.len() * ITEM_BYTES + if batch.items.is_empty() { BATCH_BYTES } else { 0 };
            batch.generation = agent.generation;
            batch.envoy.clone_from(&report.envoy);
            batch.sender.clone_from(&report.sender);
            (batch.sent_ms, batch.arrived_ms) = (report.sent_ms, arrived_ms);
            items.into_iter().for_each(|item| batch.items.extend_from_slice(item));
        }
    }

    /// Takes the calls of the next agents.
    pub(super) fn take_batch(&self) -> BTreeMap<String, Vec<CallBatch>> {
        let mut pending = self.pending();
        let (mut taken, mut count) = (BTreeMap::<String, Vec<CallBatch>>::new(), 0);
        while let Some(((agent_id, ..), _)) = pending.batches.first_key_value()
            && (count < PER_TRANSACTION || taken.contains_key(agent_id))
            && let Some(((agent_id, ..), batch)) = pending.batches.pop_first()
        {
            count += 1;
            pending.bytes -= bytes_of(&batch);
            taken.entry(agent_id).or_default().push(batch);
        }
        taken
    }
}

fn bytes_of(batch: &CallBatch) -> usize {
    BATCH_BYTES + batch.items.len()
}

impl Service {
    /// Returns the latest stored calls of an agent in the order in which they came, with their answers.
    pub async fn stored_calls(&self, agent_id: &str) -> Result<Vec<StoredCall>> {
        let batches = self.store.calls(agent_id).await?;
        let (mut calls, mut seen, mut ends) = (Vec::new(), HashSet::new(), HashMap::new());
        for (counting, batch) in &batches {
            for item in items(&batch.items) {
                let key = (batch.sender.as_str(), item.number);
                if item.kind == Kind::Answer {
                    ends.insert(key, (item.call.answer, item.call.at_ms));
                } else if seen.insert(key) {
                    calls.push(StoredCall {
                        generation: batch.generation,
                        counting: *counting,
                        envoy: batch.envoy.clone(),
                        sender: batch.sender.clone(),
                        at_ms: batch.at_ms(item.call.at_ms),
                        item,
                        end: None,
                    });
                }
            }
        }
        // An answer may be stored before its call, by another replica.
        for call in &mut calls {
            call.end = ends.get(&(call.sender.as_str(), call.item.number)).copied();
        }
        calls.sort_by_key(|call| call.at_ms);
        let excess = calls.len().saturating_sub(self.limits.calls_per_agent as usize);
        calls.drain(..excess);
        Ok(calls)
    }
}
