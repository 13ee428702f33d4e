use super::*;
use crate::fingerprint::Fingerprint;
use crate::fingerprint::hash::mix;
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
        failing: digest > 0,
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
    prop::sample::subsequence(&Rules::NAMES[..], 0..=Rules::NAMES.len())
        .prop_map(|names| names.iter().fold(Rules::default(), |rules, name| rules.without(name).unwrap_or(rules)))
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
            call.action = call.action.filter(|_| call.tools == ToolTurn::None);
            call.novel = progress::is_novel(past, &call);
            (scorer.score_progress(past, &call), call)
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
        let mut expected = past.clone();
        expected[at].answer = answer;
        let now = expected[at];
        let similar = || past[..at].iter().filter(|call| call.input.is_similar(now.input));
        let same = |text: Fingerprint| answer.text().is_some_and(|answer| text.is_same(answer));
        expected[at].novel = match now.tools {
            ToolTurn::Call(_) => !similar().any(|call| {
                let counts = |text: Fingerprint| same(text) && (call.tools == now.tools || text.informative);
                call.answer.text().is_some_and(counts)
            }),
            _ => {
                let told = |call: &Call| matches!(call.answer, Answer::Text(text) if text.informative && same(text));
                now.novel && !similar().any(told)
            }
        };
        prop_assert_eq!(window.calls(), expected);
    }
}

fn scorer(idle_reset_seconds: u32) -> Scorer {
    Scorer { window_size: 20, counting: Counting::Progress, rules: Rules::default(), idle_reset_seconds }
}

/// Makes a call at this second, and gets this answer after a tenth of it.
fn call_at(window: &mut Window, second: u64, answer: Answer) -> f64 {
    let input = Fingerprint { simhash: SimHash(7), digest: 7, informative: true, failing: false };
    let call = Call { at_ms: second * 1000, in_flight: 1, input, ..Call::default() };
    let (score, sequence) = scorer(120).score(window, call);
    scorer(120).attach_answer(window, sequence, answer, second * 1000 + 100);
    score.value()
}

fn same_answer() -> Answer {
    Answer::Text(Fingerprint { simhash: SimHash(9), digest: 9, informative: true, failing: false })
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
    let text = |hash, digest| Fingerprint { simhash: SimHash(hash), digest, informative: true, failing: false };
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
        let signals = Signals { similar_prompts, similar_responses, repeated_tool_calls, ..Signals::default() };
        let score = Score::of(signals);
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
            ..Signals::default()
        };
        let score = Score::of(signals);
        assert_eq!(score.to_string(), score.value().to_string());
    }
}

/// A window of calls that each took ten tokens and one. `step` gives the tool and the result of the call at an index.
fn window_of(calls: u32, step: impl Fn(u32) -> (u32, Fingerprint)) -> Window {
    let mut window = Window::empty(0, Counting::Progress);
    for index in 0..calls {
        let (tool, input) = step(index);
        let tools = ToolTurn::Results(ToolSignature::new(u64::from(tool) + 1));
        let call = Call { at_ms: u64::from(index), input, tools, ..Call::default() };
        let (_, sequence) = scorer(0).score(&mut window, call);
        if index + 1 < calls {
            window.add_usage(sequence, Usage { input_tokens: 10, output_tokens: 1 });
            scorer(0).attach_answer(&mut window, sequence, Answer::Unknown, u64::from(index));
        }
    }
    window
}

#[test]
fn the_cost_of_a_loop_is_that_of_the_calls_that_the_reason_names() {
    let text = |number: u32, failing| Fingerprint {
        simhash: SimHash(mix(number.into())),
        digest: number,
        informative: true,
        failing,
    };
    let usage = |calls: u32| Some(Usage { input_tokens: calls * 10, output_tokens: calls });
    let cost = |window: &Window| scorer(0).cost(window);
    // Every second call is something else.
    let repeats = window_of(9, |index| if index % 2 == 0 { (1, text(1, false)) } else { (2, text(50 + index, false)) });
    assert_eq!(cost(&repeats), (5, usage(4)), "{}", scorer(0).explain(&repeats, &[]).0);
    let row = window_of(8, |index| (index, if index < 3 { text(50 + index, false) } else { text(1, true) }));
    assert_eq!(scorer(0).explain(&row, &[]).0, "the same failing result 5 times in a row, whatever was called");
    assert_eq!(cost(&row), (5, usage(4)));
    let cycle = window_of(15, |index| (index % 7, text(index % 7, false)));
    assert!(scorer(0).explain(&cycle, &[]).0.starts_with("a cycle: 8 of the last 15 calls"));
    assert_eq!(cost(&cycle), (15, usage(14)));
    assert_eq!(cost(&window_of(1, |_| (1, text(1, false)))), (1, None), "nothing is known about tokens");
    assert_eq!(cost(&Window::empty(0, Counting::Progress)), (0, None));
}

#[test]
fn identical_calls_in_flight_keep_the_tokens_of_those_that_were_answered() {
    let mut window = Window::empty(0, Counting::Progress);
    let call = Call { in_flight: 1, ..Call::default() };
    let (_, sequence) = scorer(0).score(&mut window, call);
    scorer(0).score(&mut window, call);
    window.add_usage(sequence, Usage { input_tokens: 5, output_tokens: 1 });
    scorer(0).attach_answer(&mut window, sequence, Answer::Unknown, 1);
    scorer(0).score(&mut window, call);
    window.add_usage(sequence, Usage { input_tokens: 7, output_tokens: u32::MAX });
    let calls: Vec<_> = window.calls().iter().map(|call| (call.in_flight, call.usage)).collect();
    assert_eq!(calls, [(2, Usage { input_tokens: 12, output_tokens: u32::MAX })]);
    window.add_usage(Sequence(99), Usage { input_tokens: 7, output_tokens: 7 });
    assert_eq!(window.calls().len(), 1, "an answer to a call that has left the window is dropped");
}
