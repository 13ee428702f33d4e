use super::*;
use crate::detect::progress::Rules;
use crate::detect::score::Scorer;
use crate::fingerprint::simhash::SimHash;
use crate::turn::ToolSignature;
use proptest::prelude::*;

fn fingerprint() -> impl Strategy<Value = Fingerprint> {
    any::<(u64, u32, bool, bool)>().prop_map(|(simhash, digest, informative, failing)| Fingerprint {
        simhash: SimHash(simhash),
        digest,
        informative,
        failing,
    })
}

fn signature() -> impl Strategy<Value = ToolSignature> {
    any::<u64>().prop_map(ToolSignature::new)
}

fn call() -> impl Strategy<Value = Call> {
    let tools = prop_oneof![
        proptest::option::of(signature()).prop_map(|action| (ToolTurn::None, action)),
        signature().prop_map(|signature| (ToolTurn::Results(signature), None)),
        signature().prop_map(|signature| (ToolTurn::Call(signature), None)),
    ];
    let answer = prop_oneof![
        Just(Answer::Unknown),
        Just(Answer::Failed),
        Just(Answer::Abandoned),
        any::<u16>().prop_map(Answer::Rejected),
        fingerprint().prop_map(Answer::Text),
        (proptest::option::of(fingerprint()), signature())
            .prop_map(|(text, signature)| Answer::Tools { text, signature }),
    ];
    (any::<(u64, u32, u8, u64, bool, u32, u32)>(), fingerprint(), tools, answer).prop_map(
        |(rest, input, (tools, action), answer)| {
            let (at_ms, took_ms, in_flight, conversation, novel, input_tokens, output_tokens) = rest;
            let usage = Usage { input_tokens, output_tokens };
            let call = Call { at_ms, took_ms, in_flight, conversation, novel, usage, ..Call::default() };
            Call { input, tools, action, answer, ..call }
        },
    )
}

proptest! {
    #[test]
    fn windows_round_trip(calls in prop::collection::vec(call(), 0..40), generation: u64, size in 2u32..30) {
        let mut window = Window::empty(generation, Counting::Progress);
        for call in &calls {
            window.push(*call, size);
        }
        let kept = &calls[calls.len().saturating_sub(size as usize)..];
        let bytes = window.bytes();
        prop_assert_eq!(Window::decode(bytes, generation, Counting::Progress), window.clone());
        prop_assert_eq!(window.calls(), kept);
        let other = Window::decode(bytes, generation.wrapping_add(1), Counting::Progress);
        prop_assert!(other.calls().is_empty());
        prop_assert!(Window::decode(bytes, generation, Counting::Literal).calls().is_empty());
    }

    #[test]
    fn the_parts_of_an_encoded_call_are_those_of_the_call(call in call(), number: u32) {
        let bytes = entry::encode(&call, Sequence(number));
        let entry = Entry(&bytes);
        prop_assert_eq!(entry.call(), call);
        prop_assert_eq!(entry.sequence(), Sequence(number));
        prop_assert_eq!((entry.conversation(), entry.at_ms()), (call.conversation, call.at_ms));
        prop_assert_eq!((entry.is_in_flight(), entry.is_novel()), (call.in_flight > 0, call.novel));
        prop_assert_eq!(entry.input(), call.input.simhash);
        prop_assert_eq!(entry.answer_text(), call.answer.text().map(|text| text.simhash));
        prop_assert_eq!(entry.called_tools(), call.answer.tools());
        let has_none = matches!(call.answer, Answer::Rejected(_) | Answer::Abandoned);
        prop_assert_eq!(entry.is_rejected_or_abandoned(), has_none);
    }

    #[test]
    fn any_bytes_can_be_decoded(bytes: Vec<u8>, generation: u64) {
        let window = Window::decode(&bytes, generation, Counting::Progress);
        prop_assert_eq!(Window::decode(window.bytes(), generation, Counting::Progress), window);
    }
}

fn numbered(number: u64) -> Call {
    Call { at_ms: number, ..Call::default() }
}

fn numbers(window: &Window) -> Vec<u64> {
    window.calls().iter().map(|call| call.at_ms).collect()
}

#[test]
fn the_oldest_call_leaves_first() {
    let mut window = Window::empty(0, Counting::Progress);
    for number in 0..25 {
        window.push(numbered(number), 20);
    }
    assert_eq!(numbers(&window), (5..25).collect::<Vec<_>>());
    window.push(numbered(25), 3);
    assert_eq!(numbers(&window), [23, 24, 25], "a smaller window drops the calls that no longer fit");
}

#[test]
fn each_answer_is_attached_to_its_own_call_in_any_order() {
    let mut window = Window::empty(0, Counting::Progress);
    let first = window.push(numbered(1), 3);
    let second = window.push(numbered(2), 3);
    let text = |digest| Answer::Text(Fingerprint { digest, ..Fingerprint::default() });
    assert!(window.attach_answer(second, text(2), 9).is_some());
    assert!(window.attach_answer(first, text(1), 9).is_some());
    let answers: Vec<_> = window.calls().iter().map(|call| call.answer).collect();
    assert_eq!(answers, [text(1), text(2)]);
    window.push(numbered(3), 3);
    window.push(numbered(4), 3);
    assert!(window.attach_answer(first, text(9), 9).is_none(), "the first call has left the window");
    assert!(window.attach_answer(Sequence(99), text(9), 9).is_none(), "there is no such call");
    assert!(window.calls().iter().all(|call| call.answer != text(9)));
}

/// A slot with these calls, as numbers of conversations.
fn slot(conversations: &[u64], size: u32) -> Window {
    let mut window = Window::decode_slot(&[], 0, Counting::Progress);
    for &conversation in conversations {
        window.push(Call { conversation, novel: conversation > 1, ..Call::default() }, size);
    }
    window
}

fn conversations(window: &Window) -> Vec<u64> {
    window.calls().iter().map(|call| call.conversation).collect()
}

#[test]
fn only_calls_of_one_conversation_are_past_calls_in_a_slot() {
    let window = slot(&[1, 2, 1, 3, 1], 20);
    for (conversation, count, found) in [(1, 20, 3), (1, 2, 2), (1, 0, 0), (2, 20, 1), (9, 20, 0)] {
        assert_eq!(window.past(conversation, count).calls().len(), found, "{conversation}, at most {count}");
    }
    let common = Window::decode(window.bytes(), 0, Counting::Progress);
    assert_eq!(common.past(9, 4).calls().len(), 4, "all calls of a common window are compared");
}

#[test]
fn a_loop_is_not_crowded_out_by_new_calls_of_other_conversations() {
    // Conversation 1 repeats itself, and nine others bring something new each time.
    let calls: Vec<u64> = (0..100).map(|n| n % 10 + 1).collect();
    let window = slot(&calls, 20);
    assert_eq!(window.past(1, 20).calls().len(), 10);
    assert_eq!(window.calls().len(), 20);
}

#[test]
fn a_loop_is_found_beside_one_busy_conversation() {
    let scorer =
        Scorer { window_size: 20, counting: Counting::Progress, rules: Rules::default(), idle_reset_seconds: 0 };
    let mut window = slot(&[], 20);
    let mut call = |conversation: u64, text: u64| {
        let input = Fingerprint { simhash: SimHash(text), digest: text as u32, informative: true, failing: false };
        scorer.score(&mut window, Call { conversation, input, ..Call::default() }).0.value()
    };
    // The texts of the busy one are far apart.
    let other = crate::fingerprint::hash::mix;
    assert_eq!((0..40).map(|n| call(2, other(n))).fold(0.0, f64::max), 0.0);
    let highest = (40..80).map(|n| call(1, 0xF0F0).max(call(2, other(n)))).fold(0.0, f64::max);
    assert!(highest > 8.0, "{highest}");
}

#[test]
fn a_conversation_is_forgotten_and_its_neighbours_are_not() {
    let mut window = slot(&[1, 2, 1, 3], 20);
    window.forget(1);
    assert_eq!(conversations(&window), [2, 3]);
    let mut common = Window::decode(window.bytes(), 0, Counting::Progress);
    common.forget(2);
    assert!(conversations(&common).is_empty());
}

#[test]
fn a_conversation_takes_its_first_call_from_the_common_window_once() {
    let mut common = Window::empty(0, Counting::Progress);
    for conversation in [7, 8, 7, 9] {
        common.push(Call { conversation, ..Call::default() }, 20);
    }
    let mut window = slot(&[], 20);
    for _ in 0..2 {
        window.adopt_opening(|| common.clone(), 7, 20);
        window.adopt_opening(|| common.clone(), 5, 20);
    }
    assert_eq!(conversations(&window), [7]);
}

#[test]
fn a_window_is_silent_when_its_last_answer_is_long_ago() {
    let mut window = Window::empty(0, Counting::Progress);
    assert!(!window.past(0, 20).is_silent(1_000, 120_000), "nothing has happened at all");
    let slow = window.push(Call { at_ms: 1_000, in_flight: 1, ..Call::default() }, 20);
    let quick = window.push(Call { at_ms: 2_000, in_flight: 1, ..Call::default() }, 20);
    window.attach_answer(quick, Answer::Unknown, 3_000);
    assert!(!window.past(0, 20).is_silent(500_000, 120_000), "a call is in flight");
    assert!(window.past(0, 20).is_silent(1_000_000, 120_000), "its worker must have died");
    window.attach_answer(slow, Answer::Unknown, 400_000);
    assert!(!window.past(0, 20).is_silent(500_000, 120_000), "its answer came just now");
    assert!(!window.past(0, 20).is_silent(520_000, 120_000), "not longer than that");
    assert!(window.past(0, 20).is_silent(520_001, 120_000));
}

#[test]
fn twenty_calls_take_about_a_kilobyte() {
    let mut window = Window::empty(0, Counting::Progress);
    for number in 0..20 {
        window.push(numbered(number), 20);
    }
    assert_eq!(window.bytes().len(), 14 + 20 * 75);
    assert_eq!(Window::max_bytes(20), window.bytes().len());
}

#[test]
fn a_call_is_in_flight_until_it_is_answered_or_too_old() {
    let call = Call { at_ms: 1_000, in_flight: 1, ..Call::default() };
    for (now_ms, expected) in [(0, true), (1_000, true), (601_000, true), (601_001, false)] {
        assert_eq!(call.is_in_flight(now_ms), expected, "{now_ms}");
    }
    assert!(!Call { in_flight: 0, ..call }.is_in_flight(1_000));
}

#[test]
fn a_full_slot_drops_the_call_that_is_least_useful() {
    // Only the calls of conversation 1 are not new.
    for (name, before, added, after) in [
        ("the own oldest, of a conversation with more than half", [2, 1, 3, 1], 1, [2, 3, 1, 1]),
        ("a new one of another conversation, before those that repeat", [1, 1, 2, 3], 2, [1, 1, 2, 2]),
        ("the oldest, if nothing is new", [1, 1, 1, 1], 2, [1, 1, 1, 2]),
        ("not an own one that is new", [2, 3, 1, 1], 2, [2, 1, 1, 2]),
    ] {
        let mut window = slot(&before, 4);
        window.push(Call { conversation: added, novel: added > 1, ..Call::default() }, 4);
        assert_eq!(conversations(&window), after, "{name}");
    }
    let mut window = slot(&[3, 2, 2], 3);
    window.push(Call { conversation: 3, novel: true, ..Call::default() }, 3);
    assert_eq!(conversations(&window), [3, 2, 3], "half of a slot is not more than half");
}

#[test]
fn the_first_answer_that_was_read_to_its_end_is_kept() {
    let text = |digest| Answer::Text(Fingerprint { digest, ..Fingerprint::default() });
    for first in [Answer::Unknown, Answer::Failed, Answer::Abandoned] {
        let mut window = Window::empty(0, Counting::Progress);
        let sequence = window.push(Call { at_ms: 1_000, in_flight: 3, ..Call::default() }, 20);
        for (answer, at_ms) in [(first, 1_100), (text(1), 1_200), (text(2), 1_300)] {
            assert!(window.attach_answer(sequence, answer, at_ms).is_some());
        }
        let call = window.latest().unwrap();
        assert_eq!((call.answer, call.in_flight, call.took_ms), (text(1), 0, 300), "after {first:?}");
    }
}

#[test]
fn a_removed_call_is_returned_and_no_longer_found() {
    let mut window = Window::empty(0, Counting::Progress);
    assert_eq!(window.latest(), None);
    let sequences: Vec<_> = (1..4).map(|number| window.push(numbered(number), 20)).collect();
    assert!(sequences.iter().all(|sequence| window.contains(*sequence)));
    assert_eq!(window.remove(sequences[1]), Some(numbered(2)));
    assert_eq!(window.remove(sequences[1]), None);
    assert_eq!(sequences.iter().map(|sequence| window.contains(*sequence)).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!((numbers(&window), window.latest()), (vec![1, 3], Some(numbered(3))));
}

#[test]
fn an_answer_is_compared_only_with_answers_to_the_same_conversation() {
    let answer = Answer::Text(Fingerprint { informative: true, ..Fingerprint::default() });
    let scorer =
        Scorer { window_size: 20, counting: Counting::Progress, rules: Rules::default(), idle_reset_seconds: 0 };
    for (mut window, novel) in [(slot(&[], 20), true), (Window::empty(0, Counting::Progress), false)] {
        window.push(Call { conversation: 1, answer, ..Call::default() }, 20);
        let sequence = window.push(Call { conversation: 2, novel: true, ..Call::default() }, 20);
        assert!(scorer.attach_answer(&mut window, sequence, answer, 0));
        assert_eq!(window.latest().unwrap().novel, novel, "{:?}", window.kind);
    }
}

#[test]
fn a_conversation_begins_with_the_latest_of_its_openings_which_is_not_in_flight_there() {
    let mut common = Window::empty(0, Counting::Progress);
    for at_ms in [1, 2] {
        common.push(Call { at_ms, conversation: 7, in_flight: 1, ..Call::default() }, 20);
    }
    let mut window = slot(&[], 20);
    window.adopt_opening(|| common.clone(), 7, 20);
    assert_eq!(window.calls(), [Call { at_ms: 2, conversation: 7, ..Call::default() }]);
}
