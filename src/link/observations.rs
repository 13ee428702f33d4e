//! What one worker has seen since its last report to the sidecar: agents, scores and refusals.
//!
//! The buffer is bounded and may lose data. If too many ids arrive, the first ones are kept, and a report that cannot be
//! sent is dropped. Nothing that must not be lost goes this way.

use std::collections::BTreeMap;

use crate::detect::score::Score;
use crate::wire::{AgentObservation, Observations, ScoreSample};

/// How many agents one report lists.
const MAX_AGENTS: usize = 500;
/// How many scores are kept for one agent. Newer scores replace older ones.
const MAX_SCORES: usize = 40;

/// The observations of one worker.
#[derive(Clone, Debug, Default)]
pub struct ObservationBuffer {
    agents: BTreeMap<String, AgentObservation>,
}

impl ObservationBuffer {
    /// Counts a request of an agent.
    pub fn count_request(&mut self, agent_id: &str, now_ms: u64) {
        self.update(agent_id, |agent| {
            agent.requests += 1;
            agent.last_seen_ms = now_ms;
        });
    }

    /// Counts a request that was refused.
    pub fn count_refusal(&mut self, agent_id: &str) {
        self.update(agent_id, |agent| agent.refused += 1);
    }

    /// Adds the score of a call.
    pub fn add_score(&mut self, agent_id: &str, score: &Score, at_ms: u64) {
        self.update(agent_id, |agent| {
            if agent.scores.len() == MAX_SCORES {
                agent.scores.remove(0);
            }
            agent.scores.push(ScoreSample { at_ms, score: score.value(), signals: score.signals });
        });
    }

    /// Takes all observations out of the buffer. Returns `None` if there are none.
    pub fn take(&mut self, envoy: &str) -> Option<Observations> {
        if self.agents.is_empty() {
            return None;
        }
        let agents = std::mem::take(&mut self.agents).into_values().collect();
        Some(Observations { envoy: envoy.to_owned(), agents })
    }

    fn update(&mut self, agent_id: &str, change: impl FnOnce(&mut AgentObservation)) {
        if let Some(agent) = self.agents.get_mut(agent_id) {
            return change(agent);
        }
        if self.agents.len() < MAX_AGENTS {
            let mut agent = AgentObservation {
                agent_id: agent_id.to_owned(),
                requests: 0,
                refused: 0,
                last_seen_ms: 0,
                scores: Vec::new(),
            };
            change(&mut agent);
            self.agents.insert(agent_id.to_owned(), agent);
        }
    }
}
