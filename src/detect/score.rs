//! The window to a score with named contributions.
//!
//! `score = similar_prompts x 1.0 + similar_responses x 2.0 + repeated_tool_calls x 1.5`, over the last `window_size`
//! calls, the current one included. What counts as a repeat is decided in [`literal`](super::literal) and
//! [`progress`](super::progress); this file only adds up.

use super::explain::{Asked, explain};
use super::literal;
use super::progress::{self, Rules};
use super::window::{Call, Past, Sequence, Window};
use crate::turn::Answer;
use crate::wire::{Counting, Match, Signals};

/// How much one past call adds to one signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strength {
    /// It is not repeated.
    #[default]
    None,
    /// It is repeated, but something new happened in between: two of these count as one.
    Weak,
    /// It is repeated.
    Full,
}

impl Strength {
    /// Full or nothing.
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
    /// Where in the window.
    pub index: usize,
    /// Its input is repeated.
    pub prompt: Strength,
    /// The answer to it is repeated by the latest answer.
    pub response: Strength,
    /// Its tool call is repeated.
    pub tool: Strength,
}

/// How much a call looks like part of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// The weighted sum.
    pub value: f64,
    /// What it is the sum of.
    pub signals: Signals,
}

impl Score {
    /// The weighted sum of the specification.
    pub fn of(signals: Signals) -> Self {
        let value = f64::from(signals.similar_prompts) * 1.0
            + f64::from(signals.similar_responses) * 2.0
            + f64::from(signals.repeated_tool_calls) * 1.5;
        Self { value, signals }
    }

    /// The number in writing. Scores are whole or half: that takes none of the code that writes any number there is.
    pub fn text(&self) -> String {
        let halves = (self.value * 2.0) as u64;
        let whole = (halves / 2).to_string();
        if halves.is_multiple_of(2) { whole } else { whole + ".5" }
    }
}

/// How a window is judged.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// Calls looked at, the current one included.
    pub window_size: u32,
    /// How repeats are counted.
    pub counting: Counting,
    /// Which rules `progress` counting follows.
    pub rules: Rules,
}

impl Judge {
    /// Scores a call against the window and adds it.
    pub fn observe(&self, window: &mut Window, mut call: Call) -> (Score, Sequence) {
        let past = window.last(self.window_size.saturating_sub(1) as usize);
        let score = match self.counting {
            Counting::Literal => add_up(literal::repeats(&past.calls(), &call)),
            Counting::Progress => self.progress(past, &mut call),
        };
        (score, window.push(call, self.window_size))
    }

    /// Completes a call from those before it, and scores it.
    fn progress(&self, past: Past<'_>, call: &mut Call) -> Score {
        progress::attribute(past.latest().as_ref(), call);
        // Most calls of a healthy agent are like nothing before them, and no rule makes a repeat of that.
        if !past.echoes(call.input) {
            call.novel = true;
            return Score::default();
        }
        let past = past.calls();
        call.novel = progress::is_novel(&past, call);
        add_up(progress::repeats(&past, call, self.rules))
    }

    /// Attaches an answer to its call. False where the call has left the window.
    pub fn answer(&self, window: &mut Window, sequence: Sequence, answer: Answer) -> bool {
        match window.answer(sequence, answer) {
            Some((before, mut slot)) => {
                let mut call = slot.call();
                progress::revise(before, &mut call);
                slot.put(&call);
                true
            }
            None => false,
        }
    }

    /// Why the window's last call has the score it has: in words, and the past calls that it repeats.
    pub fn explain(&self, window: &Window, tool_names: &[String]) -> (String, Vec<Match>) {
        let matches = self.matches(window);
        let tools = window.last(1).latest().map(|now| now.tools).unwrap_or_default();
        (explain(&matches, Asked { counting: self.counting, tools, tool_names }), matches)
    }

    /// The past calls that the window's last one repeats, the latest first.
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

/// Repeats of one signal.
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

    /// Texts of which some are the same, some similar, and some neither.
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

    /// The rules on every past call, none of them left out.
    fn observe_in_full(judge: &Judge, past: &[Call], mut call: Call) -> (Score, Call) {
        let past = &past[past.len().saturating_sub(judge.window_size as usize - 1)..];
        match judge.counting {
            Counting::Literal => (add_up(literal::repeats(past, &call)), call),
            Counting::Progress => {
                progress::attribute(past.last(), &mut call);
                call.novel = progress::is_novel(past, &call);
                (add_up(progress::repeats(past, &call, judge.rules)), call)
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn leaving_out_what_is_like_nothing_changes_no_score(
            past in prop::collection::vec(call(), 0..12),
            now in call(),
            window_size in 1u32..12,
            literal: bool,
            rules in rules(),
        ) {
            let counting = if literal { Counting::Literal } else { Counting::Progress };
            let judge = Judge { window_size, counting, rules };
            let mut window = Window::empty(0, counting);
            for call in &past {
                window.push(*call, 20);
            }
            let (score, _) = judge.observe(&mut window, now);
            let added = window.calls().last().copied();
            prop_assert_eq!((score, added), { let (score, call) = observe_in_full(&judge, &past, now); (score, Some(call)) });
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
            let judge = Judge { window_size: 20, counting: Counting::Progress, rules: Rules::default() };
            prop_assert!(judge.answer(&mut window, sequences[at], answer));
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
    fn every_score_is_written_as_the_number_it_is() {
        for number in 0..1000 {
            let signals = Signals {
                similar_prompts: number % 10,
                similar_responses: number / 10 % 10,
                repeated_tool_calls: number / 100,
            };
            let score = Score::of(signals);
            assert_eq!(score.text(), score.value.to_string());
        }
    }
}
