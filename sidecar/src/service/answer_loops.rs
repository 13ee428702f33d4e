//! Answers in which a model repeats itself, as the filters observe them.
//!
//! A model that does this once often does it again, so an agent gets at most one event per minute. The first answer is
//! recorded at once. Those of the following minute are counted, and recorded together at its end. Each replica counts what
//! was reported to it, in memory. Answers that were cut are kill reports instead: see [`super::kills`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_kill_switch::wire::{Action, AgentObservation, AnswerLoop, Repetition};
use serde_json::{Map, Value, json};

use super::envoys::presentable;
use super::{Result, Service};
use crate::clock::{reported_ms, rfc3339};
use crate::model::{Agent, EventType, Millis, NewEvent};

/// The shortest time between two events of one agent.
const INTERVAL_MS: Millis = 60_000;
/// The largest number of agents in memory. Further agents are ignored.
const MAX_AGENTS: usize = 10_000;

/// The answers that are not recorded yet, by agent.
#[derive(Default)]
pub(super) struct AnswerLoops {
    seen: Mutex<BTreeMap<String, Seen>>,
}

/// What was seen of one agent since its last event.
#[derive(Clone)]
struct Seen {
    answers: u64,
    repetition: Repetition,
    detected_ms: Millis,
    envoy: String,
    /// Before this time, nothing is recorded.
    next_ms: Millis,
}

impl Seen {
    /// Whether it may be recorded. The time may seem to lie far ahead, if the clock was set back since.
    fn is_due(&self, now_ms: Millis) -> bool {
        now_ms >= self.next_ms || self.next_ms - now_ms > INTERVAL_MS
    }
}

impl AnswerLoops {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what one Envoy has observed of an agent.
    pub(super) fn add(&self, observed: &AgentObservation, envoy: &str, now_ms: Millis) {
        let Some(repetition) = observed.repetition.filter(|_| observed.answer_loops > 0) else { return };
        let detected_ms = reported_ms(observed.repetition_ms, now_ms);
        let mut seen = self.seen();
        if seen.len() >= MAX_AGENTS && !seen.contains_key(&observed.agent_id) {
            return;
        }
        let new = || Seen { answers: 0, repetition, detected_ms, envoy: String::new(), next_ms: 0 };
        let known = seen.entry(observed.agent_id.clone()).or_insert_with(new);
        known.answers = known.answers.saturating_add(observed.answer_loops);
        known.repetition = repetition;
        known.detected_ms = detected_ms;
        known.envoy = presentable(envoy);
    }

    /// Takes what may be recorded now, and forgets agents that have been quiet for the interval.
    fn take_due(&self, now_ms: Millis) -> Vec<(String, Seen)> {
        let mut seen = self.seen();
        seen.retain(|_, seen| seen.answers > 0 || !seen.is_due(now_ms));
        let due = seen.iter_mut().filter(|(_, seen)| seen.answers > 0 && seen.is_due(now_ms));
        due.map(|(agent_id, seen)| {
            seen.next_ms = now_ms.saturating_add(INTERVAL_MS);
            (agent_id.clone(), Seen { answers: std::mem::take(&mut seen.answers), ..seen.clone() })
        })
        .collect()
    }
}

impl Service {
    /// Records the answers that are due, one event for each agent.
    pub(super) async fn write_answer_loops(&self) -> Result<()> {
        let now_ms = self.now();
        let due = self.answer_loops.take_due(now_ms);
        if due.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        let is_paused = tx.pause().await?.is_some_and(|pause| pause.is_in_force(now_ms));
        for (agent_id, seen) in &due {
            if let Some(agent) = tx.agent(agent_id).await?.filter(|agent| !agent.deleted) {
                self.record(&mut tx, &event(&agent, seen, is_paused, now_ms)).await?;
            }
        }
        self.commit(tx, 0).await
    }
}

fn event(agent: &Agent, seen: &Seen, is_paused: bool, at_ms: Millis) -> NewEvent {
    let mut detail = members(seen.repetition);
    detail.insert("answers".to_owned(), json!(seen.answers));
    detail.insert("envoy".to_owned(), json!(seen.envoy));
    detail.insert("detected_at".to_owned(), json!(rfc3339(seen.detected_ms)));
    let is_cut = agent.policy.answer_loop == AnswerLoop::Cut && agent.policy.action != Action::Observe;
    if is_paused && is_cut {
        detail.insert("paused".to_owned(), json!(true));
    }
    NewEvent {
        at_ms,
        event_type: EventType::AnswerLoop,
        agent_id: agent.id().to_owned(),
        generation: agent.policy.generation,
        actor: "kill_switch".to_owned(),
        reason: seen.repetition.to_string(),
        detail,
    }
}

/// The members of an event that describe a repetition.
pub(super) fn members(repetition: Repetition) -> Map<String, Value> {
    let members = [("period", repetition.period), ("rounds", repetition.rounds()), ("words", repetition.words)];
    members.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}
