//! Requirement: Loop Detection Scoring.

use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::detect::score::{Score, Scorer};
use agent_kill_switch::detect::window::{Call, Window};
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::Answer;
use agent_kill_switch::wire::{Counting, Signals};
use serde_json::{Value, json};

use crate::common::{Agent, sentence};
use crate::{COUNTINGS, chat};

/// Returns the score of a call after these, with the default window.
fn score(counting: Counting, past: &[Call], now: Call) -> Score {
    let scorer = Scorer { window_size: 20, counting, rules: Rules::default(), idle_reset_seconds: 120 };
    let mut window = Window::empty(0, counting);
    for &call in past {
        let (_, sequence) = scorer.score(&mut window, Call { answer: Answer::Unknown, ..call });
        scorer.attach_answer(&mut window, sequence, call.answer, call.at_ms);
    }
    scorer.score(&mut window, now).0
}

/// Returns a fingerprint with this many bits set.
fn bits(count: u32) -> Fingerprint {
    Fingerprint { simhash: SimHash((1 << count) - 1), digest: 7, informative: true, failing: false }
}

fn prompt(input: Fingerprint) -> Call {
    Call { input, ..Call::default() }
}

#[test]
fn score_calculation() {
    // WHEN analyzing recent requests in the sliding window
    for (similar_prompts, similar_responses, repeated_tool_calls, expected) in
        [(0, 0, 0, 0.0), (1, 0, 0, 1.0), (0, 1, 0, 2.0), (0, 0, 1, 1.5), (5, 4, 0, 13.0), (3, 2, 3, 11.5)]
    {
        // THEN score SHALL be calculated as: similar_prompts x 1.0 + similar_responses x 2.0 + repeated_tool_calls x 1.5
        let signals = Signals { similar_prompts, similar_responses, repeated_tool_calls, ..Signals::default() };
        let score = Score::of(signals);
        assert_eq!((score.value(), score.signals), (expected, signals));
    }
    // The scores of the calls of a plain loop:
    let expected: [(u32, u32, f64); 7] =
        [(0, 0, 0.0), (1, 0, 1.0), (2, 1, 4.0), (3, 2, 7.0), (4, 3, 10.0), (5, 4, 13.0), (6, 5, 16.0)];
    for counting in COUNTINGS {
        let mut agent = Agent::with(20, 50.0, counting);
        for (number, (similar_prompts, similar_responses, value)) in expected.into_iter().enumerate() {
            agent.chat("Where is my order?", "I cannot find that order in the system.");
            let signals = Signals { similar_prompts, similar_responses, ..Signals::default() };
            let score = agent.last();
            assert_eq!((score.value(), score.signals), (value, signals), "request {}, {counting:?}", number + 1);
        }
    }
}

#[test]
fn prompt_similarity_check() {
    for counting in COUNTINGS {
        for (distance, similar) in [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (32, 0)] {
            // WHEN comparing current prompt hash to window history
            let signals = score(counting, &[prompt(bits(0))], prompt(bits(distance))).signals;
            // THEN prompts with Hamming distance < 3 SHALL be counted as similar
            assert_eq!(signals.similar_prompts, similar, "distance {distance}, {counting:?}");
        }
    }
}

#[test]
fn response_similarity_check() {
    for counting in COUNTINGS {
        for (distance, similar) in [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (32, 0)] {
            // WHEN comparing response hashes in window history
            let question = prompt(bits(40));
            let past = [bits(0), bits(distance)].map(|text| Call { answer: Answer::Text(text), ..question });
            let signals = score(counting, &past, question).signals;
            // THEN responses with Hamming distance < 3 SHALL be counted as similar
            assert_eq!(signals.similar_responses, similar, "distance {distance}, {counting:?}");
        }
    }
}

/// Returns the tool signal after these steps: a tool's name, its arguments as the model wrote them, and its result.
fn repeated(counting: Counting, steps: &[(&str, &str, String)]) -> u32 {
    let mut agent = Agent::with(20, 50.0, counting);
    let mut messages = vec![json!({"role": "user", "content": "Look into it."})];
    for (id, (name, arguments, result)) in steps.iter().enumerate() {
        let call = json!({"id": format!("call_{id}"), "type": "function",
            "function": {"name": name, "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{id}"), "content": result}));
        agent.ask_in_vain(&chat(json!({"messages": messages})));
    }
    agent.last().signals.repeated_tool_calls
}

#[test]
fn tool_call_repetition_check() {
    let same = || "no such file or directory: notes.md".to_owned();
    for counting in COUNTINGS {
        // WHEN request includes function/tool calls
        let calls = |arguments: [&'static str; 3]| arguments.map(|arguments| ("read_file", arguments, same()));
        // THEN identical tool call signatures SHALL be counted as repeated
        let identical = calls([r#"{"path":"a","line":1}"#; 3]);
        assert_eq!(repeated(counting, &identical), 2, "{counting:?}");
        let in_other_words =
            calls([r#"{"path":"a","line":1}"#, r#"{ "line": 1, "path": "a" }"#, r#"{"line":1,"path":"\u0061"}"#]);
        assert_eq!(repeated(counting, &in_other_words), 2, "order and white space do not matter, {counting:?}");
        // Different arguments or names are not repeated:
        let arguments = calls([r#"{"path":"a","line":1}"#, r#"{"path":"a","line":2}"#, r#"{"path":"a","line":3}"#]);
        assert_eq!(repeated(counting, &arguments), 0, "numbers in arguments count, {counting:?}");
        let names = ["read", "list", "stat"].map(|name| (name, r#"{"path":"a"}"#, same()));
        assert_eq!(repeated(counting, &names), 0, "{counting:?}");
    }
    let poll = |number| ("status", "{}", sentence(number));
    let changing = [poll(1), poll(2), poll(3)];
    assert_eq!(repeated(Counting::Literal, &changing), 2, "name and arguments only");
    assert_eq!(repeated(Counting::Progress, &changing), 0, "a new result is progress");
}

#[test]
fn tools_that_are_declared_and_not_called_are_no_tool_calls() {
    for counting in COUNTINGS {
        let mut agent = Agent::with(20, 50.0, counting);
        let tools: Value = json!([{"type": "function", "function": {"name": "search", "parameters": {}}}]);
        for number in 0..5 {
            agent.ask(&chat(json!({"messages": [{"role": "user", "content": sentence(number)}], "tools": tools})));
        }
        assert_eq!(agent.highest(), 0.0, "{counting:?}");
    }
}
