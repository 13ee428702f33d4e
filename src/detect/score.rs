//! Scores a call against its window.
//!
//! `score = similar_prompts x 1.0 + similar_responses x 2.0 + repeated_tool_calls x 1.5`, over the last `window_size`
//! calls, the current one included. What counts as a repeat is decided in [`literal`](super::literal) and
//! [`progress`](super::progress). This file only adds up.

use std::fmt;

use super::explain::{ExplainedCall, explain};
use super::literal;
use super::progress::{self, Rules};
use super::window::{Call, Past, Sequence, Window};
use crate::turn::Answer;
use crate::wire::{Counting, Match, Signals};

/// How much one past call adds to one signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    fn is_some(self) -> bool {
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

/// How much a call looks like part of a loop.
///
/// The weights are multiples of one half, so a score is kept as a whole number of half points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// The weighted sum, in half points.
    pub half_points: u32,
    /// The counts that are summed up.
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

    /// Whether the score is above the threshold, which is in points.
    pub fn exceeds(&self, threshold: f64) -> bool {
        f64::from(self.half_points) > threshold * 2.0
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
}

impl Scorer {
    /// Scores a call against the window and adds it to the window.
    pub fn score(&self, window: &mut Window, mut call: Call) -> (Score, Sequence) {
        let past = window.last(self.window_size.saturating_sub(1) as usize);
        let score = match self.counting {
            Counting::Literal => add_up(literal::repeats(&past.calls(), &call)),
            Counting::Progress => self.progress(past, &mut call),
        };
        (score, window.push(call, self.window_size))
    }

    /// Scores a call by progress counting. Completes the call with what the calls before it tell.
    fn progress(&self, past: Past<'_>, call: &mut Call) -> Score {
        progress::attribute(past.latest().as_ref(), call);
        // Most calls of a healthy agent resemble nothing before them, and then no rule finds a repeat.
        if !past.has_repeats_of(call.input) {
            call.novel = true;
            return Score::default();
        }
        let past = past.calls();
        call.novel = progress::is_novel(&past, call);
        add_up(progress::repeats(&past, call, self.rules))
    }

    /// Attaches an answer to its call. Returns false if the call has left the window.
    pub fn attach_answer(&self, window: &mut Window, sequence: Sequence, answer: Answer) -> bool {
        match window.attach_answer(sequence, answer) {
            Some((before, mut slot)) => {
                let mut call = slot.call();
                progress::revise(before, &mut call);
                slot.put(&call);
                true
            }
            None => false,
        }
    }

    /// Explains the score of the window's last call: in words, and by the past calls that it repeats.
    pub fn explain(&self, window: &Window, tool_names: &[String]) -> (String, Vec<Match>) {
        let matches = self.matches(window);
        let tools = window.last(1).latest().map(|now| now.tools).unwrap_or_default();
        (explain(&matches, ExplainedCall { counting: self.counting, tools, tool_names }), matches)
    }

    /// Returns the past calls that the window's last call repeats, the latest first.
    pub fn matches(&self, window: &Window) -> Vec<Match> {
        let calls = window.calls();
        let Some((now, past)) = calls.split_last() else { return Vec::new() };
        let latest = past.iter().rev().find_map(|call| call.answer.text());
        let matched = |repeat: Repeat| {
            let call = past.get(repeat.index)?;
            let any = [repeat.prompt, repeat.response, repeat.tool].into_iter().any(Strength::is_some);
            any.then(|| Match {
                calls_ago: (past.len() - repeat.index) as u32,
                age_ms: now.at_ms.saturating_sub(call.at_ms),
                prompt_distance: repeat.prompt.is_some().then(|| call.input.simhash.distance(now.input.simhash)),
                response_distance: call
                    .answer
                    .text()
                    .zip(latest)
                    .filter(|_| repeat.response.is_some())
                    .map(|(text, latest)| text.simhash.distance(latest.simhash)),
                same_tool_call: repeat.tool.is_some(),
                prompt_hash: format!("{:016x}", call.input.simhash.0),
            })
        };
        self.repeats(past, now).filter_map(matched).collect()
    }

    fn repeats<'a>(&self, past: &'a [Call], now: &'a Call) -> Box<dyn Iterator<Item = Repeat> + 'a> {
        match self.counting {
            Counting::Literal => Box::new(literal::repeats(past, now)),
            Counting::Progress => Box::new(progress::repeats(past, now, self.rules)),
        }
    }
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
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::fingerprint::simhash::SimHash;
    use crate::turn::{ToolSignature, ToolTurn};
    use proptest::prelude::*;

    /// Fingerprints of which some are the same, some similar, and some neither.
    fn text() -> impl Strategy<Value = Fingerprint> {
        let hash = prop_oneof![Just(0), Just(1), Just(0xFFFF), Just(0xFFF8), any::<u64>()];
        (hash, 0..2u32, any::<bool>()).prop_map(|(hash, digest, informative)| Fingerprint {
            simhash: SimHash(hash),
            digest,
            informative,
        })
    }

    fn call() -> impl Strategy<Value = Call> {
        let signature = || (1..3u64).prop_map(ToolSignature::new);
        let tools = prop_oneof![
            2 => Just(ToolTurn::None),
            1 => signature().prop_map(ToolTurn::Results),
            1 => signature().prop_map(ToolTurn::Call),
        ];
        let answer = prop_oneof![
            1 => Just(Answer::Unknown),
            1 => Just(Answer::Failed),
            4 => text().prop_map(Answer::Text),
            1 => (proptest::option::of(text()), signature())
                .prop_map(|(text, signature)| Answer::Tools { text, signature }),
        ];
        (text(), tools, answer, any::<bool>()).prop_map(|(input, tools, answer, novel)| Call {
            at_ms: 0,
            input,
            tools,
            answer,
            novel,
        })
    }

    fn rules() -> impl Strategy<Value = Rules> {
        any::<[bool; 5]>().prop_map(|[results, followups, sameness, novelty, information]| Rules {
            results,
            followups,
            sameness,
            novelty,
            information,
        })
    }

    /// Scores a call by applying the rules to every past call, without the shortcut.
    fn score_in_full(scorer: &Scorer, past: &[Call], mut call: Call) -> (Score, Call) {
        let past = &past[past.len().saturating_sub(scorer.window_size as usize - 1)..];
        match scorer.counting {
            Counting::Literal => (add_up(literal::repeats(past, &call)), call),
            Counting::Progress => {
                progress::attribute(past.last(), &mut call);
                call.novel = progress::is_novel(past, &call);
                (add_up(progress::repeats(past, &call, scorer.rules)), call)
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_shortcut_for_calls_that_resemble_nothing_changes_no_score(
            past in prop::collection::vec(call(), 0..12),
            now in call(),
            window_size in 1u32..12,
            literal: bool,
            rules in rules(),
        ) {
            let counting = if literal { Counting::Literal } else { Counting::Progress };
            let scorer = Scorer { window_size, counting, rules };
            let mut window = Window::empty(0, counting);
            for call in &past {
                window.push(*call, 20);
            }
            let (score, _) = scorer.score(&mut window, now);
            let added = window.calls().last().copied();
            prop_assert_eq!((score, added), { let (score, call) = score_in_full(&scorer, &past, now); (score, Some(call)) });
        }

        #[test]
        fn an_answer_is_revised_against_every_call_before_it(
            past in prop::collection::vec(call(), 1..8),
            at in 0usize..8,
            answer in text().prop_map(Answer::Text),
        ) {
            let at = at % past.len();
            let mut window = Window::empty(0, Counting::Progress);
            let sequences: Vec<_> = past.iter().map(|call| window.push(*call, 20)).collect();
            let scorer = Scorer { window_size: 20, counting: Counting::Progress, rules: Rules::default() };
            prop_assert!(scorer.attach_answer(&mut window, sequences[at], answer));
            let told = |call: &Call| match (call.answer, answer) {
                (Answer::Text(a), Answer::Text(b)) => call.input.is_similar(past[at].input) && a.informative && a.is_same(b),
                _ => false,
            };
            let mut expected = past.clone();
            expected[at].answer = answer;
            expected[at].novel &= !past[..at].iter().any(told);
            prop_assert_eq!(window.calls(), expected);
        }
    }

    #[test]
    fn a_score_is_shown_as_the_number_it_is() {
        for number in 0..1000 {
            let signals = Signals {
                similar_prompts: number % 10,
                similar_responses: number / 10 % 10,
                repeated_tool_calls: number / 100,
            };
            let score = Score::of(signals);
            assert_eq!(score.to_string(), score.value().to_string());
        }
    }
}
