//! What the filters have seen: agents appear by themselves, and scores are kept for the timeline. The calls of guarded
//! agents are written together with it: see [`super::calls`].
//!
//! Every worker of every Envoy posts its observations each second, and kills need the one writer of the database. So a
//! post only merges its observations into memory, and [`Service::write_observations`] writes them all together about
//! once a second. A post answers as if they had been written; that takes a read of the agents that are not in memory
//! yet. Observations may be lost: those in memory are lost in a crash, and those that cannot be written are dropped.
//!
//! An unknown id creates an agent with the kill switch off, but only up to a limit. Ids come from clients, and a client
//! that invents them must not fill the database or, through sync, the memory of the filters. If a rule of a policy file
//! matches the id, the agent gets the rule's settings in the same transaction.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_kill_switch::identity::is_agent_id;
use agent_kill_switch::wire::{AgentObservation, Observations, ScoreSample};
use serde::Serialize;

use super::agents::next_generation;
use super::policies::govern_new;
use super::{Result, Service, usage};
use crate::clock::reported_ms;
use crate::model::{Agent, Millis, PolicyRule, UsageDay, day_of};
use crate::store::Tx;

/// How often observations are written.
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The largest number of agents in one report. Further agents are ignored.
const MAX_AGENTS: usize = 1_000;
/// The largest number of agents in memory. Further agents are ignored.
const MAX_PENDING_AGENTS: usize = 10_000;
/// The largest number of scores of one agent in memory. The latest ones are kept.
const MAX_SCORES: usize = 200;
/// The largest number of agents that one transaction writes, so that a kill report never waits for long.
const AGENTS_PER_TRANSACTION: usize = 200;

/// The answer to a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObservationReceipt {
    /// Agents whose observations were accepted.
    pub accepted: u64,
    /// How many of them are new.
    pub created: u64,
    /// Agents that were ignored, because of a malformed id or because there are too many.
    pub ignored: u64,
    /// Unknown agents that were ignored because traffic has created as many as it may.
    pub over_limit: u64,
}

/// The observations that are not written yet, merged by agent.
#[derive(Default)]
pub(super) struct Collector {
    pending: Mutex<BTreeMap<String, Pending>>,
    /// Held while observations are written, so that the last write before the end waits for one that is under way.
    writing: tokio::sync::Mutex<()>,
}

/// What was seen of one agent since the last write.
struct Pending {
    /// Whether the agent did not exist when it was first seen.
    is_new: bool,
    first_ms: Millis,
    last_ms: Millis,
    /// In the order of arrival.
    scores: Vec<ScoreSample>,
    /// What the agent used and was refused, by the day of arrival. Nearly always one day.
    days: Vec<UsageDay>,
}

impl Collector {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, Pending>> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what was seen of an agent, because a person has deleted it.
    pub(super) fn forget(&self, agent_id: &str) {
        self.pending().remove(agent_id);
    }

    fn take_batch(&self) -> BTreeMap<String, Pending> {
        let mut pending = self.pending();
        match pending.keys().nth(AGENTS_PER_TRANSACTION).cloned() {
            Some(next) => {
                let rest = pending.split_off(&next);
                std::mem::replace(&mut *pending, rest)
            }
            None => std::mem::take(&mut *pending),
        }
    }
}

impl Pending {
    fn merge(&mut self, seen: &AgentObservation, now_ms: Millis) {
        let seen_ms = reported_ms(seen.last_seen_ms, now_ms);
        self.first_ms = self.first_ms.min(seen_ms);
        self.last_ms = self.last_ms.max(seen_ms);
        let usable = seen.scores.iter().filter(|sample| sample.score.is_finite());
        self.scores
            .extend(usable.map(|sample| ScoreSample { at_ms: reported_ms(sample.at_ms, now_ms), ..sample.clone() }));
        self.scores.drain(..self.scores.len().saturating_sub(MAX_SCORES));
        if seen.usage.is_empty() && seen.refused == 0 {
            return;
        }
        let day = day_of(now_ms);
        if self.days.last().is_none_or(|last| last.day != day) {
            self.days.push(UsageDay { day, ..UsageDay::default() });
        }
        if let Some(day) = self.days.last_mut() {
            usage::merge(day, &seen.usage, seen.refused);
        }
    }
}

impl Service {
    /// Accepts a report. Its observations are written by the next [`Service::write_observations`].
    pub async fn observe(&self, report: &Observations) -> Result<ObservationReceipt> {
        let is_usable = |seen: &&AgentObservation| is_agent_id(seen.agent_id.as_bytes());
        let usable: Vec<_> = report.agents.iter().take(MAX_AGENTS).filter(is_usable).collect();
        let ids: HashSet<_> = usable.iter().map(|seen| seen.agent_id.as_str()).collect();
        let unseen: Vec<_> = {
            let pending = self.observations.pending();
            ids.iter().copied().filter(|id| !pending.contains_key(*id)).collect()
        };
        let existing = if unseen.is_empty() { HashSet::new() } else { self.store.existing_agents(&unseen).await? };
        let unknown: HashSet<_> = unseen.into_iter().filter(|id| !existing.contains(id)).collect();
        let discovered = if unknown.is_empty() { 0 } else { self.store.discovered_agents().await? };
        let room = self.limits.max_discovered_agents.saturating_sub(discovered);
        let receipt = self.collect(report, &usable, (&unknown, room));
        let total = |of: fn(&AgentObservation) -> u64| report.agents.iter().map(of).fold(0, u64::saturating_add);
        metrics::counter!("kill_switch_requests_total").increment(total(|seen| seen.requests));
        metrics::counter!("kill_switch_requests_refused_total").increment(total(|seen| seen.refused));
        metrics::counter!("kill_switch_answer_loops_total").increment(total(|seen| seen.answer_loops));
        metrics::counter!("kill_switch_agents_over_limit_total").increment(receipt.over_limit);
        Ok(receipt)
    }

    /// Merges the usable part of a report into memory. Of the `unknown` agents, `room` may be created, those in memory
    /// included.
    fn collect(
        &self,
        report: &Observations,
        usable: &[&AgentObservation],
        (unknown, room): (&HashSet<&str>, u64),
    ) -> ObservationReceipt {
        let now_ms = self.now();
        let mut receipt = ObservationReceipt::default();
        let mut pending = self.observations.pending();
        let mut new_agents = pending.values().filter(|pending| pending.is_new).count() as u64;
        for seen in usable {
            self.answer_loops.add(seen, &report.envoy, now_ms);
            if let Some(known) = pending.get_mut(&seen.agent_id) {
                known.merge(seen, now_ms);
                self.rates.add(&seen.agent_id, seen.requests, now_ms);
                receipt.accepted += 1;
                continue;
            }
            let is_new = unknown.contains(seen.agent_id.as_str());
            if is_new && new_agents >= room {
                receipt.over_limit += 1;
                continue;
            }
            if pending.len() >= MAX_PENDING_AGENTS {
                continue;
            }
            let mut first = Pending { is_new, first_ms: Millis::MAX, last_ms: 0, scores: Vec::new(), days: Vec::new() };
            first.merge(seen, now_ms);
            pending.insert(seen.agent_id.clone(), first);
            self.rates.add(&seen.agent_id, seen.requests, now_ms);
            new_agents += u64::from(is_new);
            receipt.created += u64::from(is_new);
            receipt.accepted += 1;
        }
        receipt.ignored = report.agents.len() as u64 - receipt.accepted - receipt.over_limit;
        receipt
    }

    /// Writes the observations and the calls in memory: usually in one transaction, and in several if there are many agents.
    pub async fn write_observations(&self) -> Result<()> {
        let _turn = self.observations.writing.lock().await;
        loop {
            let (batch, calls) = (self.observations.take_batch(), self.calls.take_batch());
            if batch.is_empty() && calls.is_empty() {
                return self.write_answer_loops().await;
            }
            let mut tx = self.store.begin().await?;
            let existing = tx.existing_agents(&batch.keys().map(String::as_str).collect::<Vec<_>>()).await?;
            let (mut rev, mut over_limit, mut creation, mut seen) = (0, 0, None, Vec::new());
            for (agent_id, pending) in &batch {
                let agent_id = agent_id.as_str();
                if !existing.contains(agent_id) {
                    match self.create(&mut tx, agent_id, &mut creation).await? {
                        Some(created) => rev = created,
                        None => {
                            over_limit += 1;
                            continue;
                        }
                    }
                }
                seen.push((agent_id, pending));
            }
            tx.touch_agents(seen.iter().map(|(id, pending)| (*id, pending.first_ms, pending.last_ms)).collect())
                .await?;
            let scores = seen.iter().map(|(id, pending)| (*id, pending.scores.as_slice()));
            let scores: Vec<_> = scores.filter(|(_, scores)| !scores.is_empty()).collect();
            tx.append_scores(&scores, self.limits.scores_per_agent).await?;
            for (agent_id, pending) in seen {
                for day in &pending.days {
                    tx.add_usage(agent_id, day).await?;
                }
                let refused: u64 = pending.days.iter().map(|day| day.refused).sum();
                if refused > 0 {
                    tx.add_refusals(agent_id, refused, pending.last_ms).await?;
                }
            }
            tx.add_calls(&calls, self.limits.calls_per_agent).await?;
            self.commit(tx, rev).await?;
            metrics::counter!("kill_switch_agents_over_limit_total").increment(over_limit);
        }
    }

    /// Creates an agent that does not exist, and returns its revision, or `None` if traffic may create no more. The first
    /// agent reads what creating agents needs: the limit is checked again, because other replicas create agents too.
    async fn create(&self, tx: &mut Tx, agent_id: &str, creation: &mut Option<Creation>) -> Result<Option<u64>> {
        let creation = match creation {
            Some(creation) => creation,
            None => {
                let room = self.limits.max_discovered_agents.saturating_sub(tx.discovered_agents().await?);
                creation.insert(Creation { room, rules: tx.policy_rules().await? })
            }
        };
        if creation.room == 0 {
            return Ok(None);
        }
        creation.room -= 1;
        let tombstone = tx.agent(agent_id).await?;
        let mut agent = Agent::new(agent_id, next_generation(tombstone.map(|agent| agent.policy.generation)));
        agent.discovered = true;
        govern_new(&mut agent, &creation.rules);
        Ok(Some(tx.save_agent(&agent).await?))
    }
}

/// What a transaction that creates agents needs to know.
struct Creation {
    /// How many agents traffic may still create.
    room: u64,
    rules: Vec<PolicyRule>,
}
