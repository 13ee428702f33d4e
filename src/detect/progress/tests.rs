//! What each rule counts, and what it counts when it is switched off.
//!
//! Strengths are listed as the past calls are, oldest first.

use super::*;
use crate::detect::window::Window;
use crate::fingerprint::Fingerprint;
use crate::fingerprint::hash::mix;
use crate::fingerprint::simhash::SimHash;
use crate::turn::ToolSignature;
use crate::wire::Counting;
use Strength::{Full, Weak};

const NONE: Strength = Strength::None;

/// Texts with different numbers are not similar.
fn text(number: u32) -> Fingerprint {
    Fingerprint { simhash: SimHash(mix(number.into())), digest: number, informative: true, failing: false }
}

/// A text that is similar to `text(number)`, but not the same.
fn nearly(number: u32) -> Fingerprint {
    Fingerprint { simhash: SimHash(text(number).simhash.0 ^ 1), digest: number + 1000, ..text(number) }
}

/// A text that says too little to identify anything.
fn little(number: u32) -> Fingerprint {
    Fingerprint { informative: false, ..text(number) }
}

fn says(number: u32) -> Answer {
    Answer::Text(text(number))
}

fn asked(input: Fingerprint, answer: Answer) -> Call {
    Call { input, answer, ..Call::default() }
}

fn ask(number: u32) -> Call {
    asked(text(number), Answer::Unknown)
}

/// A call that brings the result of a tool.
fn result(tool: u64, result: Fingerprint) -> Call {
    Call { input: result, tools: ToolTurn::Results(ToolSignature::new(tool)), ..Call::default() }
}

/// A call that is itself a call of a tool.
fn tool(tool: u64, answer: Answer) -> Call {
    Call { input: text(7), tools: ToolTurn::Call(ToolSignature::new(tool)), answer, ..Call::default() }
}

fn novel(call: Call) -> Call {
    Call { novel: true, ..call }
}

fn without(name: &str) -> Rules {
    Rules::default().without(name).unwrap()
}

fn strengths(past: &[Call], now: Call, rules: Rules, of: fn(&Repeat) -> Strength) -> Vec<Strength> {
    let mut strengths: Vec<_> = repeats(past, &now, rules).map(|repeat| of(&repeat)).collect();
    strengths.reverse();
    strengths
}

fn prompts(past: &[Call], now: Call, rules: Rules) -> Vec<Strength> {
    strengths(past, now, rules, |repeat| repeat.prompt)
}

fn responses(past: &[Call], now: Call) -> Vec<Strength> {
    strengths(past, now, Rules::default(), |repeat| repeat.response)
}

#[test]
fn each_rule_is_switched_off_by_its_name_and_alone() {
    for (index, name) in Rules::NAMES.into_iter().enumerate() {
        let rules = without(name);
        let Rules { results, followups, sameness, novelty, information, wording, actions, ids, failures, cycles } =
            rules;
        let on = [results, followups, sameness, novelty, information, wording, actions, ids, failures, cycles];
        assert_eq!(on, std::array::from_fn(|other| other != index), "{name}");
    }
    assert_eq!(Rules::default().without("nonsense"), None);
}

#[test]
fn a_call_is_novel_unless_the_same_came_before_about_the_same_tools() {
    let past = [ask(1), result(1, text(2))];
    for (name, now, expected) in [
        ("the same", ask(1), false),
        ("a similar text", asked(nearly(1), Answer::Unknown), true),
        ("another text", ask(3), true),
        ("the same result", result(1, text(2)), false),
        ("the same result of another tool", result(2, text(2)), true),
        ("the same text without a tool", ask(2), true),
    ] {
        assert_eq!(is_novel(&past, &now), expected, "{name}");
    }
    assert!(is_novel(&[], &ask(1)), "nothing came before");
}

#[test]
fn a_similar_prompt_repeats_only_if_it_got_the_latest_answer() {
    let now = asked(nearly(1), Answer::Unknown);
    let past = |first, latest| [asked(text(1), first), asked(text(2), latest)];
    for (name, past, expected) in [
        ("there are no answers", past(Answer::Unknown, Answer::Unknown), NONE),
        ("the same answer", past(says(5), says(5)), Full),
        ("another answer", past(says(5), says(6)), NONE),
        ("an answer that says too little", past(Answer::Text(little(5)), Answer::Text(little(5))), NONE),
    ] {
        assert_eq!(prompts(&past, now, Rules::default()), [expected, NONE], "{name}");
        assert_eq!(prompts(&past, now, without("sameness")), [Full, NONE], "{name}, without the rule");
    }
    assert_eq!(prompts(&[ask(1), ask(2)], ask(1), Rules::default()), [Full, NONE], "the same prompt needs no answer");
}

#[test]
fn a_result_repeats_only_if_it_is_the_same_and_of_the_same_tool() {
    for (name, now, expected) in [
        ("the same result", result(1, text(2)), Full),
        ("a similar result", result(1, nearly(2)), NONE),
        ("the same result of another tool", result(2, text(2)), NONE),
    ] {
        let past = [result(1, text(2))];
        assert_eq!(prompts(&past, now, Rules::default()), [expected], "{name}");
        assert_eq!(strengths(&past, now, Rules::default(), |repeat| repeat.tool), [expected], "{name}");
        assert_eq!(prompts(&past, now, without("results")), [Full], "{name}, without the rule");
    }
    let tools = strengths(&[ask(1)], ask(1), Rules::default(), |repeat| repeat.tool);
    assert_eq!(tools, [NONE], "a prompt without tools repeats no tool call");
}

#[test]
fn a_tool_call_repeats_only_those_that_got_the_latest_known_result() {
    let cases: [(&str, [Call; 2], [Strength; 2]); 10] = [
        ("the same result", [tool(1, says(5)), tool(1, says(5))], [Full, Full]),
        ("another result", [tool(1, says(5)), tool(1, says(6))], [NONE, Full]),
        ("no result is known", [tool(1, Answer::Unknown), tool(1, Answer::Failed)], [NONE, NONE]),
        ("the latest result is not known", [tool(1, says(5)), tool(1, Answer::Unknown)], [Full, NONE]),
        ("another tool came last", [tool(1, says(5)), tool(2, says(6))], [Full, NONE]),
        (
            "refused with the same status",
            [tool(1, Answer::Rejected(400)), tool(1, Answer::Rejected(400))],
            [Full, Full],
        ),
        ("refused with another status", [tool(1, Answer::Rejected(400)), tool(1, Answer::Rejected(404))], [NONE, Full]),
        ("given up each time", [tool(1, Answer::Abandoned), tool(1, Answer::Abandoned)], [Full, Full]),
        ("given up, then refused", [tool(1, Answer::Abandoned), tool(1, Answer::Rejected(400))], [NONE, Full]),
        ("answered, then given up", [tool(1, says(5)), tool(1, Answer::Abandoned)], [NONE, Full]),
    ];
    for (name, past, expected) in cases {
        let now = tool(1, Answer::Unknown);
        assert_eq!(prompts(&past, now, Rules::default()), expected, "{name}");
        assert_eq!(prompts(&past, now, without("results")), [Full, Full], "{name}, without the rule");
        assert_eq!(responses(&past, now), [NONE, NONE], "{name}: a result is no answer of a model");
    }
}

#[test]
fn something_new_in_between_weakens_one_repeat() {
    let past = [ask(1), ask(1), novel(ask(2)), ask(1)];
    assert_eq!(prompts(&past, ask(1), Rules::default()), [Full, Weak, NONE, Full]);
    assert_eq!(prompts(&past, ask(1), without("novelty")), [Full, Full, NONE, Full]);
    let past = [ask(1), ask(2), ask(1)];
    assert_eq!(prompts(&past, ask(1), Rules::default()), [Full, NONE, Full], "nothing new was in between");
}

#[test]
fn a_prompt_that_says_little_counts_in_full_only_until_something_else_came() {
    let ok = asked(little(1), Answer::Unknown);
    let past = [ok, ok, ask(2), ok, ok];
    assert_eq!(prompts(&past, ok, Rules::default()), [Weak, Weak, NONE, Full, Full]);
    assert_eq!(prompts(&past, ok, without("information")), [Full, Full, NONE, Full, Full]);
    let empty = result(1, little(1));
    assert_eq!(prompts(&[empty, ask(2), empty], empty, Rules::default()), [Full, NONE, Full], "a tool tells enough");
}

#[test]
fn an_answer_repeats_only_if_what_came_after_it_was_the_same_as_well() {
    let nearly_says = Answer::Text(nearly(5));
    let little_said = Answer::Text(little(5));
    for (name, first, latest, now, expected) in [
        ("the same followup", says(5), says(5), ask(2), Full),
        ("the same followup to a similar answer", nearly_says, says(5), ask(2), Weak),
        ("another answer", says(6), says(5), ask(2), NONE),
        ("another followup", says(5), says(5), ask(3), NONE),
        ("the same followup about a tool", says(5), says(5), result(1, text(2)), NONE),
        ("a similar followup", says(5), says(5), asked(nearly(2), Answer::Unknown), Full),
        ("a similar followup to a similar answer", nearly_says, says(5), asked(nearly(2), Answer::Unknown), NONE),
        ("a similar followup to little", little_said, little_said, asked(nearly(2), Answer::Unknown), NONE),
        ("the same followup to little", little_said, little_said, ask(2), Full),
    ] {
        let past = [asked(text(1), first), asked(text(2), says(9)), asked(text(1), latest)];
        assert_eq!(responses(&past, now), [expected, NONE, NONE], "{name}");
    }
    let past = [asked(text(1), says(5)), asked(text(2), says(5))];
    let response = |rules| strengths(&past, ask(3), rules, |repeat| repeat.response);
    assert_eq!(response(without("followups")), [Full, NONE]);
}

#[test]
fn requests_without_an_answer_repeat_only_if_they_are_sent_again_unchanged() {
    let rejected = Answer::Rejected(400);
    for answer in [rejected, Answer::Abandoned] {
        let again = [asked(text(1), answer), asked(text(1), answer)];
        assert_eq!(responses(&again, ask(1)), [Full, NONE], "{answer:?}");
        assert_eq!(responses(&again, ask(2)), [NONE, NONE], "{answer:?}, and then something else");
        let other = [asked(text(1), answer), ask(2), asked(text(3), answer)];
        assert_eq!(responses(&other, ask(2)), [NONE, NONE, NONE], "{answer:?}, for another request");
    }
    let past = [asked(text(1), rejected), asked(text(1), Answer::Rejected(404))];
    assert_eq!(responses(&past, ask(1)), [NONE, NONE], "another status");
    let past = [asked(text(1), Answer::Abandoned), asked(text(1), rejected)];
    assert_eq!(responses(&past, ask(1)), [NONE, NONE], "given up, then refused");
}

#[test]
fn there_is_no_latest_answer_if_the_model_called_tools_last() {
    let called = Answer::Tools { text: Some(text(5)), signature: ToolSignature::new(1) };
    let past = [asked(text(1), says(5)), asked(text(1), says(5)), asked(text(1), called)];
    assert_eq!(responses(&past, ask(1)), [NONE; 3]);
    let past = [asked(text(1), says(5)), asked(text(1), says(5)), asked(text(1), Answer::Failed)];
    assert_eq!(responses(&past, ask(1)), [Full, NONE, NONE], "an attempt that failed is not an answer");
}

/// A call whose input is the result of an action in the text of the answer before it.
fn acted(action: u64, input: Fingerprint, answer: Answer) -> Call {
    Call { action: Some(ToolSignature::new(action)), ..asked(input, answer) }
}

#[test]
fn an_answer_that_is_similar_but_not_the_same_counts_half() {
    let past = [asked(text(1), Answer::Text(nearly(5))), asked(text(1), says(5)), asked(text(1), says(5))];
    assert_eq!(responses(&past, ask(1)), [Weak, Full, NONE]);
    let strengths = strengths(&past, ask(1), without("wording"), |repeat| repeat.response);
    assert_eq!(strengths, [Full, Full, NONE], "without the rule");
}

#[test]
fn an_action_in_text_is_a_tool_call_beside_the_repeated_input() {
    let past = [acted(1, text(7), says(4)), acted(2, text(7), says(5)), acted(1, text(8), says(6))];
    let now = acted(1, text(7), Answer::Unknown);
    let tools = |rules| strengths(&past, now, rules, |repeat| repeat.tool);
    assert_eq!(tools(Rules::default()), [Full, NONE, NONE], "the same action with the same result");
    assert_eq!(tools(without("actions")), [NONE; 3]);
    assert_eq!(prompts(&past, now, Rules::default()), [Full, Full, NONE], "the input counts whatever the action was");
}

#[test]
fn answers_with_different_actions_are_different_answers() {
    let past = [asked(text(1), says(5)), acted(1, text(7), says(5)), acted(2, text(7), says(5))];
    assert_eq!(responses(&past, acted(1, text(7), Answer::Unknown)), [Full, NONE, NONE]);
}

#[test]
fn a_call_that_names_no_tools_belongs_to_the_tools_of_the_last_answer() {
    let (called, own) = (ToolSignature::new(1), ToolSignature::new(2));
    let mut window = Window::empty(0, Counting::Progress);
    let attributed = |window: &Window, tools| {
        let mut now = Call { tools, action: Some(own), ..ask(1) };
        attribute(window.past(0, 20), &mut now);
        (now.tools, now.action)
    };
    assert_eq!(attributed(&window, ToolTurn::None), (ToolTurn::None, Some(own)), "there was no answer");
    window.push(asked(text(1), Answer::Tools { text: None, signature: called }), 20);
    assert_eq!(attributed(&window, ToolTurn::None), (ToolTurn::Results(called), None));
    assert_eq!(attributed(&window, ToolTurn::Results(own)), (ToolTurn::Results(own), None));
}

#[test]
fn a_short_result_is_old_only_if_the_same_tool_call_has_had_it() {
    let mut window = Window::empty(0, Counting::Progress);
    window.push(tool(1, Answer::Text(little(3))), 20);
    for (number, is_novel) in [(1, false), (2, true)] {
        let mut call = tool(number, Answer::Text(little(3)));
        revise(window.past(0, 20), &mut call);
        assert_eq!(call.novel, is_novel, "tool {number}");
    }
}
