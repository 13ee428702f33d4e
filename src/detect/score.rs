//! Scores a call against its window.
//!
//! `score = similar_prompts x 1.0 + similar_responses x 2.0 + repeated_tool_calls x 1.5`, over the last `window_size`
//! calls, the current one included. What counts as a repeat is decided in [`literal`](super::literal) and
//! [`progress`](super::progress). This file only adds up.

use std::fmt;

use super::explain::{ExplainedCall, explain};
use super::findings;
use super::literal;
use super::progress::{self, Rules};
use super::tools::Treatment;
use super::window::{Call, Past, Sequence, Window};
use crate::turn::Answer;
use crate::wire::{Counting, Match, Signals, Usage};

/// How much one past call adds to one signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// The call is not repeated.
    #[default]
    None,
    /// The call is repeated, but something new happened in between. Two of these count as one.
    Weak,
    /// The call is repeated.
    Full,
}

impl Strength {
    /// Returns `Full` if the call is repeated, and otherwise `None`.
    pub fn full(repeated: bool) -> Self {
        if repeated { Self::Full } else { Self::None }
    }

    pub(super) fn is_some(self) -> bool {
        self != Self::None
    }
}

/// What one past call has in common with the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeat {
    /// The index of the past call in the window.
    pub index: usize,
    /// How strongly its input is repeated.
    pub prompt: Strength,
    /// How strongly its answer is repeated by the latest answer.
    pub response: Strength,
    /// How strongly its tool call is repeated.
    pub tool: Strength,
}

impl Repeat {
    /// Whether anything of the call is repeated.
    fn is_any(&self) -> bool {
        self.prompt.is_some() || self.response.is_some() || self.tool.is_some()
    }
}

/// How much a call looks like part of a loop.
///
/// The weights are multiples of one half, so a score is kept as a whole number of half points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// The weighted sum, in half points.
    pub half_points: u32,
    /// What was counted.
    pub signals: Signals,
}

impl Score {
    /// Computes the weighted sum of the specification.
    pub fn of(signals: Signals) -> Self {
        let half_points = signals.similar_prompts * 2 + signals.similar_responses * 4 + signals.repeated_tool_calls * 3;
        Self { half_points, signals }
    }

    /// Returns the score in points.
    pub fn value(&self) -> f64 {
        f64::from(self.half_points) / 2.0
    }

    /// Whether the call is part of a loop: the score is above the threshold, which is in points, or one of the findings
    /// beside it is as high.
    pub fn exceeds(&self, threshold: f64) -> bool {
        let Signals { failures_in_a_row, repeated_steps, .. } = self.signals;
        f64::from(self.half_points) > threshold * 2.0
            || (failures_in_a_row > 0 && f64::from(failures_in_a_row) >= threshold)
            || f64::from(repeated_steps) > threshold
    }
}

/// Shows the score in points.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = if self.half_points.is_multiple_of(2) { "" } else { ".5" };
        write!(f, "{}{half}", self.half_points / 2)
    }
}

/// Scores calls by an agent's settings.
#[derive(Clone, Copy, Debug)]
pub struct Scorer {
    /// How many calls are looked at, the current one included.
    pub window_size: u32,
    /// How repeats are counted.
    pub counting: Counting,
    /// Which rules `progress` counting follows.
    pub rules: Rules,
    /// After how many seconds of silence `progress` counting begins a new run. 0 means never.
    pub idle_reset_seconds: u32,
}

impl Scorer {
    /// Scores a call against the window and adds it to the window.
    pub fn score(&self, window: &mut Window, mut call: Call) -> (Score, Sequence) {
        if call.treatment == Treatment::Ignored {
            return (Score::default(), self.pass_by(window, call));
        }
        if self.counting == Counting::Literal {
            let score = add_up(literal::repeats(&self.past(window, &call).calls(), &call));
            return (self.counted(window, &call, score), window.push(call, self.window_size));
        }
        self.end_silent_run(window, &call);
        let past = self.past(window, &call);
        progress::attribute(past, &mut call);
        // Most calls of a healthy agent resemble nothing before them, and then no rule finds a repeat.
        let glance = past.glance(call.input);
        let joined = if glance.in_flight { self.join_identical(window, &mut call) } else { None };
        let past = if glance.repeats { self.past(window, &call).calls() } else { Vec::new() };
        call.novel = progress::is_novel(&past, &call);
        let score = if past.is_empty() { Score::default() } else { self.score_progress(&past, &call) };
        let score = self.counted(window, &call, score);
        let sequence = match joined {
            Some(sequence) => {
                window.push_as(sequence, call, self.window_size);
                sequence
            }
            None => window.push(call, self.window_size),
        };
        (score, sequence)
    }

    /// Scores a call that may repeat others.
    #[inline(never)] // most calls do not, and their code stays small
    fn score_progress(&self, past: &[Call], call: &Call) -> Score {
        let mut score = add_up(progress::repeats(past, call, self.rules));
        // A finding that says less than the score changes no verdict, and would only distract from it.
        let failures = if self.rules.failures { findings::failures_in_a_row(past, call) } else { 0 };
        if failures > 1 && f64::from(failures) >= score.value() {
            score.signals.failures_in_a_row = failures;
        }
        let steps = if self.rules.cycles { findings::repeated_steps(past, call) } else { 0 };
        if f64::from(steps) > score.value() {
            score.signals.repeated_steps = steps;
        }
        score
    }

    /// Like [`score`](Self::score), for a call in a slot. If the conversation has no calls there yet, the call with which it
    /// began is taken from the agent's common window.
    pub fn score_in_slot(&self, slot: &mut Window, common: impl FnOnce() -> Window, call: Call) -> (Score, Sequence) {
        slot.adopt_opening(common, call.conversation, self.window_size);
        self.score(slot, call)
    }

    #[inline(always)]
    pub(super) fn past<'a>(&self, window: &'a Window, call: &Call) -> Past<'a> {
        window.past(call.conversation, self.window_size.saturating_sub(1) as usize)
    }

    /// Removes an identical call that is in flight from the window, and lets the current call take its place and number.
    /// The agent has heard no answer yet, so that the two are not a repetition.
    fn join_identical(&self, window: &mut Window, call: &mut Call) -> Option<Sequence> {
        let is_identical = |other: &Call| {
            // None of them was answered yet, though some may have failed.
            let is_unanswered = matches!(other.answer, Answer::Unknown | Answer::Failed);
            is_unanswered && other.is_in_flight(call.at_ms) && progress::is_same_step(other, call)
        };
        let sequence = self.past(window, call).in_flight(is_identical)?;
        let other = window.remove(sequence)?;
        call.in_flight = call.in_flight.saturating_add(other.in_flight);
        call.usage = other.usage;
        Some(sequence)
    }

    /// Attaches an answer to its call. Returns false if the call has left the window.
    ///
    /// With progress counting, an attempt that failed leaves the window, so that the next one takes its place.
    pub fn attach_answer(&self, window: &mut Window, sequence: Sequence, answer: Answer, now_ms: u64) -> bool {
        let Some((before, mut entry)) = window.attach_answer(sequence, answer, now_ms) else { return false };
        let mut call = entry.call();
        progress::revise(before, &mut call);
        entry.put(&call);
        if self.counting == Counting::Progress && call.answer == Answer::Failed && call.in_flight == 0 {
            window.remove(sequence);
        }
        true
    }

    /// Explains the score of the window's last call: in words, and by the past calls that it repeats.
    pub fn explain(&self, window: &Window, tool_names: &[String]) -> (String, Vec<Match>) {
        let matches = self.matches(window);
        let now = window.latest().unwrap_or_default();
        let calls = window.past(now.conversation, self.window_size as usize).calls();
        let answer = latest_answer(&calls);
        let score = match (self.counting, calls.split_last()) {
            (Counting::Progress, Some((now, past))) => self.score_progress(past, now),
            _ => Score::default(),
        };
        let call =
            ExplainedCall { counting: self.counting, tools: now.tools, tool_names, answer, score, calls: calls.len() };
        (explain(&matches, call), matches)
    }

    /// Returns how many calls the loop took that the window's last call completes, and the tokens of their answers, if any
    /// stated them. The loop is what [`explain`](Self::explain) describes: a row of failures, a cycle, or else the last call
    /// and the calls that it repeats. It may have begun before the window.
    pub fn cost(&self, window: &Window) -> (u32, Option<Usage>) {
        let latest = window.latest().unwrap_or_default();
        let calls = window.past(latest.conversation, self.window_size as usize).calls();
        let Some((now, past)) = calls.split_last() else { return (0, None) };
        let found = match self.counting {
            Counting::Progress => self.score_progress(past, now).signals,
            Counting::Literal => Signals::default(),
        };
        let in_a_row = match (found.failures_in_a_row, found.repeated_steps) {
            (0, 0) => 0,
            (0, _) => calls.len().min(findings::CYCLE_CALLS),
            (failures, _) => failures as usize,
        };
        let (mut count, mut usage) = (in_a_row as u32, Usage::default());
        for call in calls.iter().rev().take(in_a_row) {
            usage.add(call.usage);
        }
        if in_a_row == 0 {
            count = 1;
            for repeat in self.repeats(past, now).filter(Repeat::is_any) {
                count += 1;
                usage.add(past.get(repeat.index).map_or(Usage::default(), |call| call.usage));
            }
        }
        (count, usage.stated())
    }

    /// Returns the past calls that the window's last call repeats, the latest first.
    pub fn matches(&self, window: &Window) -> Vec<Match> {
        let Some(now) = window.latest() else { return Vec::new() };
        let calls = window.past(now.conversation, self.window_size as usize).calls();
        let Some((now, past)) = calls.split_last() else { return Vec::new() };
        let latest = latest_answer(past);
        let matched = |repeat: Repeat| {
            let call = past.get(repeat.index)?;
            repeat.is_any().then(|| Match {
                calls_ago: (past.len() - repeat.index) as u32,
                age_ms: now.at_ms.saturating_sub(call.at_ms),
                prompt_distance: repeat.prompt.is_some().then(|| call.input.simhash.distance(now.input.simhash)),
                response_distance: repeat.response.is_some().then(|| {
                    let texts = call.answer.text().zip(latest.text());
                    texts.map_or(0, |(text, latest)| text.simhash.distance(latest.simhash))
                }),
                same_tool_call: repeat.tool.is_some(),
                prompt_hash: format!("{:016x}", call.input.simhash.0),
            })
        };
        self.repeats(past, now).filter_map(matched).collect()
    }

    pub(super) fn repeats<'a>(&self, past: &'a [Call], now: &'a Call) -> Box<dyn Iterator<Item = Repeat> + 'a> {
        match self.counting {
            Counting::Literal => Box::new(literal::repeats(past, now)),
            Counting::Progress => Box::new(progress::repeats(past, now, self.rules)),
        }
    }
}

/// Returns the latest answer with which earlier ones are compared.
fn latest_answer(calls: &[Call]) -> Answer {
    let is_compared =
        |answer: &Answer| answer.text().is_some() || matches!(answer, Answer::Rejected(_) | Answer::Abandoned);
    calls.iter().rev().map(|call| call.answer).find(is_compared).unwrap_or_default()
}

fn add_up(repeats: impl Iterator<Item = Repeat>) -> Score {
    let (mut prompts, mut responses, mut tools) = (Count::default(), Count::default(), Count::default());
    for repeat in repeats {
        prompts.add(repeat.prompt);
        responses.add(repeat.response);
        tools.add(repeat.tool);
    }
    Score::of(Signals {
        similar_prompts: prompts.total(),
        similar_responses: responses.total(),
        repeated_tool_calls: tools.total(),
        ..Signals::default()
    })
}

/// The repeats of one signal.
#[derive(Default)]
struct Count {
    full: u32,
    weak: u32,
}

impl Count {
    fn add(&mut self, strength: Strength) {
        match strength {
            Strength::None => {}
            Strength::Weak => self.weak += 1,
            Strength::Full => self.full += 1,
        }
    }

    fn total(&self) -> u32 {
        self.full + self.weak / 2
    }
}

#[cfg(test)]
mod tests;
