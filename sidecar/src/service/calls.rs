//! The calls that filters report, on their way into the database.
//!
//! They are what the story of a kill and the preview of settings are computed from. A report only adds its calls and
//! answers to memory, and they are written once a second together with the observations, in the same transaction. So a
//! kill never waits for them. Like observations they may be lost: those in memory are lost in a crash, and those beyond
//! [`MAX_PENDING`] are dropped.
//!
//! Each replica stores what was reported to it, so that every call is stored once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_kill_switch::entries::{ITEM_BYTES, Item, Kind};
use agent_kill_switch::wire::EntryReport;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fleet::at_ms;
use super::{Result, Service};
use crate::model::Millis;
use crate::store::{ItemBytes, NewAnswer, NewCall, NewCalls, Tx};

/// The largest number of calls and answers in memory.
const MAX_PENDING: usize = 20_000;
/// How many calls and answers one transaction writes, unless a single agent has more.
const PER_TRANSACTION: usize = 2_000;

/// The calls and answers that are not written yet.
#[derive(Default)]
pub(super) struct CallCollector {
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    agents: BTreeMap<String, PendingAgent>,
    /// How many calls and answers all agents have.
    count: usize,
}

/// What is not written yet of one agent.
#[derive(Default)]
struct PendingAgent {
    new: NewCalls,
    /// Where the calls are that wait for their answers, by worker and number.
    open: HashMap<String, HashMap<u32, usize>>,
}

impl CallCollector {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the calls of an agent, because a person has deleted it.
    pub(super) fn forget(&self, agent_id: &str) {
        let mut pending = self.pending();
        let forgotten = pending.agents.remove(agent_id);
        pending.count -= forgotten.map_or(0, |agent| len(&agent.new));
    }

    /// Adds a report that has just arrived.
    pub(super) fn add(&self, report: &EntryReport, arrived_ms: Millis) {
        let mut pending = self.pending();
        for agent in &report.agents {
            let bytes = STANDARD.decode(&agent.entries).unwrap_or_default();
            let items = bytes.as_chunks::<ITEM_BYTES>().0;
            if pending.count + items.len() > MAX_PENDING {
                metrics::counter!("kill_switch_calls_dropped_total").increment(items.len() as u64);
            } else if !items.is_empty() {
                let known = pending.agents.entry(agent.agent_id.clone()).or_default();
                let before = len(&known.new);
                add_items(known, report, agent.generation, items, arrived_ms);
                let added = len(&known.new) - before;
                pending.count += added;
            }
        }
    }

    /// Takes the calls of the next agents.
    pub(super) fn take_batch(&self) -> BTreeMap<String, NewCalls> {
        let mut pending = self.pending();
        let (mut batch, mut count) = (BTreeMap::new(), 0);
        while count < PER_TRANSACTION
            && let Some((agent_id, PendingAgent { new, .. })) = pending.agents.pop_first()
        {
            count += len(&new);
            batch.insert(agent_id, new);
        }
        pending.count -= count;
        batch
    }
}

fn len(new: &NewCalls) -> usize {
    new.calls.len() + new.answers.len()
}

fn add_items(
    PendingAgent { new, open }: &mut PendingAgent,
    report: &EntryReport,
    generation: u64,
    items: &[[u8; ITEM_BYTES]],
    arrived_ms: Millis,
) {
    let open = open.entry(report.sender.clone()).or_default();
    for bytes in items {
        let Some(item) = Item::decode(bytes) else { continue };
        let (number, sender) = (item.number, report.sender.clone());
        if item.kind == Kind::Answer {
            match open.remove(&number).and_then(|index| new.calls.get_mut(index)) {
                Some(call) => call.answer = Some(*bytes),
                None => new.answers.push(NewAnswer { sender, number, item: *bytes }),
            }
            continue;
        }
        open.insert(number, new.calls.len());
        let at_ms = at_ms(arrived_ms, report.sent_ms, item.call.at_ms);
        let item: ItemBytes = *bytes;
        new.calls.push(NewCall { generation, envoy: report.envoy.clone(), sender, number, at_ms, item, answer: None });
    }
}

impl Service {
    /// Writes the calls of one agent, if it still exists.
    pub(super) async fn write_calls(&self, tx: &mut Tx, agent_id: &str, new: &NewCalls) -> Result<()> {
        match tx.agent(agent_id).await? {
            Some(agent) if !agent.deleted => {
                tx.add_calls(agent_id, new, agent.policy.counting, self.limits.calls_per_agent).await?;
            }
            _ => {}
        }
        Ok(())
    }
}
