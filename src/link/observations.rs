//! What one worker has seen since its last report to the sidecar: agents, scores and refusals.
//!
//! The buffer is bounded and may lose data. If too many ids arrive, the first ones are kept, and a report that cannot be
//! delivered is dropped. Nothing that must not be lost goes this way.

use std::rc::Rc;

use super::backoff::Backoff;
use crate::detect::score::Score;
use crate::detect::window::Sequence;
use crate::host::{CallId, Host, Incoming, Outgoing};
use crate::wire::{AgentObservation, ModelUsage, Observations, Repetition, ScoreSample, add_usage};
use crate::worker::Worker;

/// How many agents the buffer has room for.
const MAX_AGENTS: usize = 500;
/// How many agents one report lists. With all their scores, these are half a megabyte, and the sidecar accepts one.
const AGENTS_PER_REPORT: usize = 100;
/// How long a report may take.
const TIMEOUT_MS: u64 = 10_000;
/// The longest pause between two attempts, before jitter.
const LONGEST_PAUSE_MS: u64 = 30_000;
/// How many scores are kept for one agent. Newer scores replace older ones.
const MAX_SCORES: usize = 40;

/// The observations of one worker.
#[derive(Clone, Debug, Default)]
pub struct ObservationBuffer {
    /// Ordered by id. A list is as fast as a map for so few agents, and takes much less code.
    agents: Vec<AgentObservation>,
}

impl ObservationBuffer {
    /// Counts a request of an agent.
    pub fn count_request(&mut self, agent_id: &str, now_ms: u64) {
        if let Some(agent) = self.entry(agent_id) {
            agent.requests += 1;
            agent.last_seen_ms = now_ms;
        }
    }

    /// Counts a request that was refused.
    pub fn count_refusal(&mut self, agent_id: &str) {
        if let Some(agent) = self.entry(agent_id) {
            agent.refused += 1;
        }
    }

    /// Adds the score of a call.
    pub fn add_score(&mut self, agent_id: &str, (score, Sequence(sequence)): (&Score, Sequence), at_ms: u64) {
        let Some(agent) = self.entry(agent_id) else { return };
        if agent.scores.len() == MAX_SCORES {
            agent.scores.remove(0);
        }
        agent.scores.push(ScoreSample { at_ms, sequence, score: score.value(), signals: score.signals });
    }

    /// Adds an answer in which the model repeats itself.
    pub fn add_answer_loop(&mut self, agent_id: &str, repetition: Repetition, at_ms: u64) {
        let Some(agent) = self.entry(agent_id) else { return };
        // One line for each report, so that a model that does this all the time does not fill the log.
        if agent.answer_loops == 0 {
            log::warn!("agent {agent_id}: {repetition}");
        }
        agent.answer_loops += 1;
        agent.repetition = Some(repetition);
        agent.repetition_ms = at_ms;
    }

    /// Adds the tokens that the answers to an agent's calls stated.
    pub fn add_usage(&mut self, agent_id: &str, usage: ModelUsage) {
        if let Some(agent) = self.entry(agent_id) {
            add_usage(&mut agent.usage, usage);
        }
    }

    /// Takes the observations for one report out of the buffer.
    pub fn take(&mut self) -> Vec<AgentObservation> {
        self.agents.split_off(self.agents.len().saturating_sub(AGENTS_PER_REPORT))
    }

    /// Returns the entry of an agent, which is made if there is room for it.
    #[inline(never)] // so that it is compiled once
    fn entry(&mut self, agent_id: &str) -> Option<&mut AgentObservation> {
        let found = self.agents.binary_search_by(|agent| agent.agent_id.as_str().cmp(agent_id));
        let index = found.unwrap_or_else(|index| index);
        if found.is_err() && self.agents.len() < MAX_AGENTS {
            let agent_id = agent_id.to_owned();
            self.agents.insert(index, AgentObservation { agent_id, ..AgentObservation::default() });
        } else if found.is_err() {
            return None;
        }
        self.agents.get_mut(index)
    }
}

/// Sends the observations of one worker.
pub struct Reporter {
    worker: Rc<Worker>,
    next_ms: u64,
    sent: Option<CallId>,
    backoff: Backoff,
}

impl Reporter {
    /// Creates a reporter that sends with its first tick.
    pub fn new(worker: Rc<Worker>) -> Self {
        Self { worker, next_ms: 0, sent: None, backoff: Backoff::of_observations(LONGEST_PAUSE_MS) }
    }

    /// Sends a report, if there is something to report and it is time. One report is under way at a time.
    pub fn tick(&mut self, host: &impl Host, now_ms: u64) {
        let mut buffer = self.worker.observations.borrow_mut();
        let is_due = now_ms >= self.next_ms && self.sent.is_none() && !buffer.agents.is_empty();
        if !is_due || !self.backoff.may_call(host, now_ms) {
            return;
        }
        let observations = Observations { envoy: self.worker.envoy.clone(), agents: buffer.take() };
        // What did not fit into this report follows at once.
        if buffer.agents.is_empty() {
            self.next_ms = now_ms + u64::from(self.worker.config.observe_interval_ms);
        }
        let body = serde_json::to_vec(&observations).unwrap_or_default();
        let path = "/v1/observations".to_owned();
        self.sent = host.dispatch(&Outgoing { method: "POST", path, body, timeout_ms: TIMEOUT_MS });
        if self.sent.is_none() {
            self.backoff.fail(host, now_ms);
        }
    }

    /// Handles the answer to a report.
    pub fn response(&mut self, host: &impl Host, call: CallId, answer: &Option<Incoming>) {
        if self.sent.take_if(|sent| *sent == call).is_none() {
            return;
        }
        let now_ms = host.steady_ms();
        if answer.as_ref().is_some_and(|answer| answer.status < 300) {
            self.backoff.recover(host);
            self.tick(host, now_ms);
        } else {
            self.backoff.fail(host, now_ms);
        }
    }
}
