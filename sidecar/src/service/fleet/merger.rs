//! The calls of agents, merged from all Envoys and judged by the filter's own detector.
//!
//! Pure: no store and no clock. Calls are merged in the order in which they arrive, and the calls of one report in the order
//! in which its Envoy saw them. The clocks of Envoys are never compared with each other. A report tells how long ago each
//! of its calls began and ended, and the time of arrival minus that is the time that the detector goes by.
//!
//! Two identical calls that were in flight at the same time count as one, as in the filter. Each Envoy reports in its own
//! rhythm, though, so that the answer to the first may arrive before the second call, and the answer to a call after the
//! call that followed it. So a call is not counted if an identical one was under way while it was, and a call that is
//! identical to one whose answer has not arrived waits for that answer, but not for long.
//!
//! Memory is bounded: at most [`MAX_WINDOWS`] windows of [`MAX_AGENTS`] agents are kept. A window takes 14 bytes and, for each
//! call, 75 and about 40 more: with the default size, 10,000 of them take about 23 MB, and with the largest 115 MB. Those
//! that have not been used for longest are forgotten first.

use std::collections::HashMap;

use agent_kill_switch::agent::record::Record;
use agent_kill_switch::entries::Kind;
use agent_kill_switch::wire::AgentPolicy;

use super::agent::{MergedAgent, Patience, Trip};
use super::reported::Reported;

/// The largest number of windows.
pub(super) const MAX_WINDOWS: usize = 10_000;
/// The largest number of agents.
pub(super) const MAX_AGENTS: usize = 10_000;
/// The share of windows that is forgotten when there are too many.
const FORGOTTEN_SHARE: usize = 10;

/// The merged calls of all agents.
#[derive(Default)]
pub(super) struct Merger {
    agents: HashMap<String, MergedAgent>,
    windows: usize,
    uses: u64,
}

impl Merger {
    /// Returns an agent, if any Envoy has reported calls of it lately.
    pub(super) fn agent(&self, agent_id: &str) -> Option<&MergedAgent> {
        self.agents.get(agent_id)
    }

    /// Returns how many agents and windows there are.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.agents.len(), self.windows)
    }

    /// Takes note of the latest policy of an agent. Calls from before an activation, or from before the kill switch was
    /// switched off, are forgotten.
    pub(super) fn set_policy(&mut self, policy: &AgentPolicy) {
        let record = Record::new(policy, 0);
        let new = || MergedAgent::new(&policy.agent_id, record);
        let agent = self.agents.entry(policy.agent_id.clone()).or_insert_with(new);
        let is_same = agent.record.generation == record.generation && agent.record.counting == record.counting;
        agent.record = record;
        if !is_same || !record.enabled || !record.active {
            self.windows -= agent.forget(None);
        }
    }

    /// Forgets an agent that was deleted.
    pub(super) fn remove(&mut self, agent_id: &str) {
        self.windows -= self.agents.remove(agent_id).map_or(0, |agent| agent.windows.len());
    }

    /// Forgets the calls of one conversation of an agent, or all of them.
    pub(super) fn forget(&mut self, agent_id: &str, conversation: Option<u64>) {
        if let Some(agent) = self.agents.get_mut(agent_id) {
            self.windows -= agent.forget(conversation);
        }
    }

    /// Attaches the answers of a report to calls that earlier reports had. Returns the loops that are known by that.
    ///
    /// This is done for all reports that arrived together before any of their calls is added, so that a call is compared
    /// with as many answers as are known.
    pub(super) fn add_answers(&mut self, reported: &Reported<'_>) -> Vec<Trip> {
        let Some(agent) = self.agents.get_mut(reported.agent_id).filter(|agent| agent.is_current(reported)) else {
            return Vec::new();
        };
        let mut trips: Vec<_> = agent.lose_patience(reported.arrived_ms).into_iter().collect();
        for item in reported.items.iter().filter(|item| item.kind == Kind::Answer) {
            trips.extend(agent.answer(reported, item));
        }
        trips
    }

    /// Adds the calls of a report, with the answers to them that the report has. Returns the first loop that they complete.
    pub(super) fn add_calls(&mut self, reported: &Reported<'_>) -> Option<Trip> {
        let agent = self.agents.get_mut(reported.agent_id).filter(|agent| agent.is_current(reported))?;
        let before = agent.windows.len();
        let answers = reported.items.iter().filter(|item| item.kind == Kind::Answer);
        let ends: HashMap<_, _> = answers.map(|item| (item.number, reported.end(item))).collect();
        let mut trip = None;
        for item in reported.items.iter().filter(|item| item.kind != Kind::Answer) {
            self.uses += 1;
            agent.see(reported, item);
            let arrival = reported.arrival(item, ends.get(&item.number).copied());
            agent.use_window(arrival.conversation, self.uses);
            trip = agent.add(arrival, Patience::Waits);
            if trip.is_some() {
                break;
            }
        }
        self.windows = self.windows + agent.windows.len() - before;
        if self.windows > MAX_WINDOWS || self.agents.len() > MAX_AGENTS {
            self.evict();
        }
        trip
    }

    /// Forgets the windows that were not used for longest, and agents that have none.
    fn evict(&mut self) {
        let mut uses: Vec<u64> =
            self.agents.values().flat_map(|agent| agent.windows.values().map(|window| window.last_use)).collect();
        let forgotten = uses.len() / FORGOTTEN_SHARE;
        let oldest = if uses.is_empty() { 0 } else { *uses.select_nth_unstable(forgotten).1 };
        for agent in self.agents.values_mut() {
            agent.windows.retain(|_, window| window.last_use > oldest);
        }
        self.agents.retain(|_, agent| !agent.windows.is_empty());
        self.windows = self.agents.values().map(|agent| agent.windows.len()).sum();
    }
}

#[cfg(test)]
mod tests;
