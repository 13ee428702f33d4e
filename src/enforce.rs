//! A judged call, and what a verdict does to the shared state: exactly one worker acts on a loop, and all see it at once.

use std::borrow::Cow;

use crate::detect::progress::Rules;
use crate::detect::score::{Judge, Score};
use crate::detect::verdict::{Verdict, decide};
use crate::detect::window::{Call, Sequence, Window};
use crate::host::{Host, Level, Stored};
use crate::link::outbox;
use crate::metrics::Metric;
use crate::number::shown;
use crate::policy::Record;
use crate::state::{AgentKey, Kept, update, update_from};
use crate::turn::{Answer, Turn};
use crate::wire::{Action, KillReport};
use crate::worker::Worker;

/// Matching calls told of in a report.
const MATCHES_MAX: usize = 20;

/// An agent, its policy, and which of its windows is meant.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The key of its record.
    pub key: AgentKey,
    /// Its policy when the request came.
    pub record: Record,
    /// The record that it was read from, its window included.
    pub stored: Stored,
    /// The slot of the request's session, where sessions are told apart.
    pub slot: Option<u32>,
}

/// A call with its score.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What is to be done.
    pub verdict: Verdict,
    /// Why.
    pub score: Score,
    /// The number by which the answer finds the call.
    pub sequence: Sequence,
    /// The window, for the report of a loop; nothing else is reported.
    window: Option<Window>,
}

/// What acting on a loop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// This worker acted, and reports.
    First,
    /// Another worker was first.
    Second,
    /// The agent was activated, or is gone, since the request came.
    Void,
}

impl Subject {
    fn judge(&self) -> Judge {
        Judge { window_size: self.record.window_size, counting: self.record.counting, rules: Rules::default() }
    }

    fn window(&self, bytes: &[u8]) -> Window {
        Window::decode(bytes, self.record.window_generation(), self.record.counting)
    }

    /// Where the window is kept, and what stands before it there.
    fn place(&self) -> (Cow<'_, str>, usize) {
        match self.slot {
            None => (Cow::Borrowed(self.key.as_str()), Kept::BYTES),
            Some(slot) => (Cow::Owned(self.key.of_slot(slot)), 0),
        }
    }

    /// Adds a call to the window and judges it. Nothing where too many workers wrote at once, or the agent is gone.
    pub fn observe(&mut self, host: &impl Host, turn: &Turn, now_ms: u64) -> Option<Judged> {
        let call = Call { at_ms: now_ms, input: turn.input, tools: turn.tools, ..Call::default() };
        let stored = std::mem::take(&mut self.stored);
        let (key, start) = self.place();
        let stored = if self.slot.is_none() { stored } else { host.get(&key) };
        let judged = update_from(host, &key, stored, |stored| {
            let Some((before, window)) = stored.bytes.split_at_checked(start) else { return (None, None) };
            let mut window = self.window(window);
            let (score, sequence) = self.judge().observe(&mut window, call);
            let verdict = decide(&score, self.record.threshold, self.record.action);
            let bytes = [before, window.bytes()].concat();
            let window = (verdict != Verdict::Allow).then_some(window);
            (Some(bytes), Some(Judged { verdict, score, sequence, window }))
        });
        judged.flatten()
    }

    /// Attaches an answer to its call, if the window is still of the same generation.
    pub fn answer(&self, host: &impl Host, sequence: Sequence, answer: Answer) {
        let (key, start) = self.place();
        update(host, &key, |stored| {
            let Some((before, window)) = stored.bytes.split_at_checked(start) else { return (None, ()) };
            let mut window = self.window(window);
            let there = self.judge().answer(&mut window, sequence, answer);
            (there.then(|| [before, window.bytes()].concat()), ())
        });
    }

    /// Acts on a loop, unless another worker has done so or the policy has moved on.
    pub fn trip(&self, host: &impl Host, verdict: Verdict, now_ms: u64) -> Trip {
        let outcome = update(host, self.key.as_str(), |stored| {
            let Some(kept) = Kept::decode(&stored.bytes) else { return (None, Trip::Void) };
            let now = kept.record;
            if now.generation != self.record.generation {
                return (None, Trip::Void);
            }
            if !now.active || now.blocks != self.record.blocks {
                return (None, Trip::Second);
            }
            let record = match verdict {
                Verdict::Allow => return (None, Trip::Void),
                Verdict::Kill => now.killed(),
                Verdict::Block => now.blocked(now_ms),
                // A fresh window, so that what would have been one kill is reported once.
                Verdict::Observe => Record { blocks: now.blocks.wrapping_add(1), ..now },
            };
            (Some(Kept { record, ..kept }.encode(&stored.bytes)), Trip::First)
        });
        outcome.unwrap_or(Trip::Second)
    }

    /// Tells the sidecar and the operator of a loop.
    pub fn report(&self, host: &impl Host, worker: &Worker, judged: &Judged, turn: &Turn, evidence: Evidence) {
        let (action, metric, word) = match judged.verdict {
            Verdict::Kill => (Action::Deactivate, Metric::Kills, "deactivated"),
            Verdict::Block => (Action::Block, Metric::Blocks, "blocked"),
            Verdict::Observe | Verdict::Allow => (Action::Observe, Metric::WouldKills, "would have been stopped"),
        };
        host.count(metric, 1);
        let explain = |window| self.judge().explain(window, &turn.tool_names);
        let (reason, mut matches) = judged.window.as_ref().map(explain).unwrap_or_default();
        matches.truncate(MATCHES_MAX);
        let (agent, record) = (self.key.agent(), &self.record);
        let (score, threshold) = (judged.score.value, record.threshold);
        let numbers = format!("score {}, threshold {}", shown(score), shown(threshold));
        host.log(Level::Warn, &format!("agent {agent} {word}: {reason} ({numbers})"));
        let report = KillReport {
            kill_id: format!("{:016x}{:016x}", host.random(), host.random()),
            agent_id: agent.to_owned(),
            generation: record.generation,
            action,
            envoy: worker.envoy.clone(),
            at_ms: evidence.at_ms,
            score,
            threshold,
            window_size: record.window_size,
            counting: record.counting,
            signals: judged.score.signals,
            reason,
            tools: turn.tool_names.clone(),
            matches,
            excerpt: evidence.excerpt,
        };
        outbox::put(host, worker, report);
    }
}

/// What a report says beside the numbers.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// When the loop was found, in milliseconds since 1970.
    pub at_ms: u64,
    /// The beginning of the repeated input, where the operator asked for it.
    pub excerpt: Option<String>,
}
