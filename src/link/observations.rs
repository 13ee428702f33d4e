//! What one worker has seen since it last told the sidecar: agents, scores, refusals.
//!
//! Bounded and lossy: under a flood of ids the first ones are kept, and what cannot be sent is forgotten. Nothing that
//! must not be lost goes this way.

use std::collections::BTreeMap;

use crate::detect::score::Score;
use crate::wire::{AgentObservation, Observations, ScoreSample};

/// Agents told of at once.
const AGENTS_MAX: usize = 500;
/// Scores kept for one agent; older ones make room.
const SCORES_MAX: usize = 40;

/// One worker's memory.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    agents: BTreeMap<String, AgentObservation>,
}

impl Seen {
    /// A request of an agent came by.
    pub fn request(&mut self, agent: &str, now_ms: u64) {
        self.with(agent, |seen| {
            seen.requests += 1;
            seen.last_seen_ms = now_ms;
        });
    }

    /// It was refused.
    pub fn refused(&mut self, agent: &str) {
        self.with(agent, |seen| seen.refused += 1);
    }

    /// It was scored.
    pub fn score(&mut self, agent: &str, score: &Score, at_ms: u64) {
        self.with(agent, |seen| {
            if seen.scores.len() == SCORES_MAX {
                seen.scores.remove(0);
            }
            seen.scores.push(ScoreSample { at_ms, score: score.value, signals: score.signals });
        });
    }

    /// Everything, for sending; the memory is empty afterwards.
    pub fn take(&mut self, envoy: &str) -> Option<Observations> {
        if self.agents.is_empty() {
            return None;
        }
        let agents = std::mem::take(&mut self.agents).into_values().collect();
        Some(Observations { envoy: envoy.to_owned(), agents })
    }

    fn with(&mut self, agent: &str, note: impl FnOnce(&mut AgentObservation)) {
        if let Some(seen) = self.agents.get_mut(agent) {
            return note(seen);
        }
        if self.agents.len() < AGENTS_MAX {
            let mut seen = AgentObservation {
                agent_id: agent.to_owned(),
                requests: 0,
                refused: 0,
                last_seen_ms: 0,
                scores: Vec::new(),
            };
            note(&mut seen);
            self.agents.insert(agent.to_owned(), seen);
        }
    }
}
