//! Scores a call against its window.
//!
//! `score = similar_prompts x 1.0 + similar_responses x 2.0 + repeated_tool_calls x 1.5`, over the last `window_size`
//! calls, the current one included. What counts as a repeat is decided in [`literal`](super::literal) and
//! [`progress`](super::progress). This file only adds up.

use std::fmt;

use super::explain::{ExplainedCall, explain};
use super::literal;
use super::progress::{self, Rules};
use super::tools::Treatment;
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
        let score = self.counted(window, &call, add_up(progress::repeats(&past, &call, self.rules)));
        let sequence = match joined {
            Some(sequence) => {
                window.push_as(sequence, call, self.window_size);
                sequence
            }
            None => window.push(call, self.window_size),
        };
        (score, sequence)
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
        let answer = latest_answer(&window.past(now.conversation, self.window_size as usize).calls());
        let call = ExplainedCall { counting: self.counting, tools: now.tools, tool_names, answer };
        (explain(&matches, call), matches)
    }

    /// Returns the past calls that the window's last call repeats, the latest first.
    pub fn matches(&self, window: &Window) -> Vec<Match> {
        let Some(now) = window.latest() else { return Vec::new() };
        let calls = window.past(now.conversation, self.window_size as usize).calls();
        let Some((now, past)) = calls.split_last() else { return Vec::new() };
        let latest = latest_answer(past);
        let matched = |repeat: Repeat| {
            let call = past.get(repeat.index)?;
            let any = [repeat.prompt, repeat.response, repeat.tool].into_iter().any(Strength::is_some);
            any.then(|| Match {
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
            1 => Just(Answer::Abandoned),
            1 => (400..402u16).prop_map(Answer::Rejected),
            4 => text().prop_map(Answer::Text),
            1 => (proptest::option::of(text()), signature())
                .prop_map(|(text, signature)| Answer::Tools { text, signature }),
        ];
        (text(), tools, answer, any::<bool>()).prop_map(|(input, tools, answer, novel)| Call {
            input,
            tools,
            answer,
            novel,
            ..Call::default()
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
                if call.tools == ToolTurn::None {
                    let called = past.last().and_then(|call| call.answer.tools());
                    call.tools = called.map_or(ToolTurn::None, ToolTurn::Results);
                }
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
            let scorer = Scorer { window_size, counting, rules, idle_reset_seconds: 120 };
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
            mut past in prop::collection::vec(call(), 1..8),
            at in 0usize..8,
            answer in text().prop_map(Answer::Text),
        ) {
            let at = at % past.len();
            past[at].answer = Answer::Unknown;
            let mut window = Window::empty(0, Counting::Progress);
            let sequences: Vec<_> = past.iter().map(|call| window.push(*call, 20)).collect();
            prop_assert!(scorer(0).attach_answer(&mut window, sequences[at], answer, 0));
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

    fn scorer(idle_reset_seconds: u32) -> Scorer {
        Scorer { window_size: 20, counting: Counting::Progress, rules: Rules::default(), idle_reset_seconds }
    }

    /// Makes a call at this second, and gets this answer after a tenth of it.
    fn call_at(window: &mut Window, second: u64, answer: Answer) -> f64 {
        let input = Fingerprint { simhash: SimHash(7), digest: 7, informative: true };
        let call = Call { at_ms: second * 1000, in_flight: 1, input, ..Call::default() };
        let (score, sequence) = scorer(120).score(window, call);
        scorer(120).attach_answer(window, sequence, answer, second * 1000 + 100);
        score.value()
    }

    fn same_answer() -> Answer {
        Answer::Text(Fingerprint { simhash: SimHash(9), digest: 9, informative: true })
    }

    #[test]
    fn a_run_ends_with_a_long_silence_and_not_with_a_short_one() {
        for (seconds, highest) in [(45, 13.0), (120, 13.0), (600, 0.0)] {
            let mut window = Window::empty(0, Counting::Progress);
            let scores: Vec<f64> = (1..=6).map(|n| call_at(&mut window, n * seconds, same_answer())).collect();
            assert_eq!(scores[5], highest, "{seconds} s apart");
        }
    }

    #[test]
    fn attempts_that_failed_leave_the_window() {
        let mut window = Window::empty(0, Counting::Progress);
        for second in 0..40 {
            assert_eq!(call_at(&mut window, second, Answer::Failed), 0.0);
        }
        assert_eq!(window.calls(), []);
    }

    #[test]
    fn wrong_and_abandoned_requests_that_are_sent_again_are_repeated_answers() {
        for answer in [Answer::Rejected(400), Answer::Abandoned] {
            let mut window = Window::empty(0, Counting::Progress);
            let scores: Vec<f64> = (0..6).map(|second| call_at(&mut window, second, answer)).collect();
            assert_eq!(scores, [0.0, 1.0, 4.0, 7.0, 10.0, 13.0], "{answer:?}");
        }
    }

    #[test]
    fn identical_calls_in_flight_count_as_one_until_one_of_them_is_answered() {
        let mut window = Window::empty(0, Counting::Progress);
        let call = Call { in_flight: 1, ..Call::default() };
        let sequences: Vec<_> = (0..12).map(|_| scorer(120).score(&mut window, call)).collect();
        assert!(sequences.iter().all(|(score, sequence)| score.value() == 0.0 && *sequence == sequences[0].1));
        assert_eq!((window.calls().len(), window.calls()[0].in_flight), (1, 12));
        scorer(120).attach_answer(&mut window, sequences[0].1, same_answer(), 5);
        assert_eq!(scorer(120).score(&mut window, call).0.value(), 1.0, "an answer was heard");
        assert_eq!(window.calls()[0].in_flight, 11);
        let literal = Scorer { counting: Counting::Literal, ..scorer(120) };
        let mut window = Window::empty(0, Counting::Literal);
        let scores: Vec<_> = (0..3).map(|_| literal.score(&mut window, call).0.value()).collect();
        assert_eq!(scores, [0.0, 1.0, 2.0], "literal counting counts each");
    }

    #[test]
    fn without_a_limit_no_silence_ends_a_run() {
        let mut window = Window::empty(0, Counting::Progress);
        let call = Call { input: Fingerprint { informative: true, ..Fingerprint::default() }, ..Call::default() };
        let at_day = |day: u64| Call { at_ms: day * 86_400_000, ..call };
        let scores: Vec<_> = (0..3).map(|day| scorer(0).score(&mut window, at_day(day)).0.value()).collect();
        assert_eq!(scores, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn an_attempt_leaves_the_window_when_the_last_of_its_identical_calls_has_failed() {
        for (counting, kept) in [(Counting::Progress, 0), (Counting::Literal, 1)] {
            let scorer = Scorer { counting, ..scorer(120) };
            let mut window = Window::empty(0, counting);
            let sequence = window.push(Call { in_flight: 2, ..Call::default() }, 20);
            assert!(scorer.attach_answer(&mut window, sequence, Answer::Failed, 5));
            assert_eq!(window.calls().len(), 1, "one is still in flight");
            assert!(scorer.attach_answer(&mut window, sequence, Answer::Failed, 6));
            assert_eq!(window.calls().len(), kept, "{counting:?}");
            assert_eq!(scorer.attach_answer(&mut window, sequence, Answer::Failed, 7), kept > 0, "{counting:?}");
        }
    }

    #[test]
    fn matches_tell_how_long_ago_and_how_far_apart_the_calls_are() {
        let mut window = Window::empty(0, Counting::Progress);
        assert_eq!(scorer(0).explain(&window, &[]).0, "nothing is repeated");
        let text = |hash, digest| Fingerprint { simhash: SimHash(hash), digest, informative: true };
        for (second, input, answer) in [(1, 0xA0, 0xB1), (2, 0xA0, 0xB0), (4, 0xA0, 0)] {
            let answer = if answer == 0 { Answer::Unknown } else { Answer::Text(text(answer, 2)) };
            window.push(Call { at_ms: second * 1000, input: text(input, 1), answer, ..Call::default() }, 20);
        }
        let (reason, matches) = scorer(0).explain(&window, &[]);
        assert_eq!(reason, "the same input 3 times and nearly the same answer 2 times in the last 3 calls");
        let matched = |calls_ago, age_ms, response_distance| Match {
            calls_ago,
            age_ms,
            prompt_distance: Some(0),
            response_distance,
            same_tool_call: false,
            prompt_hash: "00000000000000a0".to_owned(),
        };
        assert_eq!(matches, [matched(1, 2_000, None), matched(2, 3_000, Some(1))]);
        let mut window = Window::empty(0, Counting::Progress);
        window.push(Call { input: text(0xA0, 1), ..Call::default() }, 20);
        window.push(Call { input: text(0xFFFF, 9), ..Call::default() }, 20);
        assert_eq!(scorer(0).matches(&window), [], "the latest call repeats nothing");
    }

    #[test]
    fn each_signal_has_its_weight() {
        for (counts, points) in [([1, 0, 0], 1.0), ([0, 1, 0], 2.0), ([0, 0, 1], 1.5), ([2, 3, 5], 15.5)] {
            let [similar_prompts, similar_responses, repeated_tool_calls] = counts;
            let score = Score::of(Signals { similar_prompts, similar_responses, repeated_tool_calls });
            assert_eq!(score.value(), points, "{counts:?}");
            assert!(score.exceeds(points - 0.5) && !score.exceeds(points), "{counts:?}");
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
