//! The reason that a kill event gives is true: whoever counts the calls finds what it says.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test fails by panicking

mod common;

use agent_kill_switch::wire::Counting;
use common::{Agent, Conversation, sentence, words};
use proptest::prelude::*;
use serde_json::json;

/// "5 times in the last 9 calls" as numbers, of the first thing that is said to be repeated.
fn numbers(reason: &str) -> Option<(usize, usize)> {
    let (before, after) = reason.split_once(" times")?;
    let times = before.rsplit(' ').next()?.parse().ok()?;
    let span = after.rsplit_once("in the last ")?.1.strip_suffix(" calls")?.parse().ok()?;
    Some((times, span))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Steps 0 to 2 are always the same; higher ones are new each time.
    #[test]
    fn tool_calls_are_counted_as_a_person_counts_them(steps in prop::collection::vec(0usize..6, 2..40)) {
        let (mut agent, mut chat) = (Agent::new(), Conversation::new("Find the bug."));
        let mut brought = vec![usize::MAX];
        for (number, &step) in steps.iter().enumerate() {
            let known = step < 3;
            let result = if known { sentence(step) } else { sentence(100 + number) };
            let name = ["list_dir", "read_file", "grep", "edit", "run", "fetch"][step];
            let arguments = if known { json!({}) } else { json!({"n": number}) };
            agent.threshold = 1000.0;
            chat.step(&mut agent, &[(name, arguments, result)]);
            brought.push(if known { step } else { 100 + number });
            // The step above was asked for with the request before; this one brings its result.
            let probe = chat.body();
            let mut after = Agent::new();
            after.window = agent.window.clone();
            after.ask(&probe);
            let (reason, _) = after.scorer.explain(&after.window, &[name.to_owned()]);
            let in_window = &brought[brought.len().saturating_sub(20)..];
            let now = brought[brought.len() - 1];
            let times = in_window.iter().filter(|step| **step == now).count();
            match numbers(&reason) {
                None => prop_assert_eq!(times, 1, "{}", reason),
                Some((said, span)) => {
                    let first = in_window.iter().position(|step| *step == now).unwrap();
                    prop_assert_eq!(said, times, "{}", reason);
                    prop_assert_eq!(span, in_window.len() - first, "{}", reason);
                }
            }
        }
    }
}

#[test]
fn weak_repeats_are_counted_one_by_one_though_two_of_them_score_as_one() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Refactor."));
    for n in 0..9 {
        let call = match n % 2 {
            0 => ("run", json!({"command": "make check"}), "all checks passed, no warnings".to_owned()),
            _ => ("edit", json!({"n": n}), sentence(n)),
        };
        chat.step(&mut agent, &[call]);
    }
    agent.ask(&chat.body());
    let (reason, matches) = agent.scorer.explain(&agent.window, &["run".to_owned()]);
    assert_eq!(reason, "the same tool call run with the same result 5 times in the last 9 calls");
    assert_eq!((matches.len(), agent.last().signals.repeated_tool_calls), (4, 2));
}

#[test]
fn prompts_alone_and_prompts_with_answers_are_told_apart() {
    let (mut alone, mut both) = (Agent::new(), Agent::new());
    for n in 0..4 {
        alone.chat("Please go on with the plan.", &sentence(n));
        both.chat(&format!("Where is order #{}?", 7000 + n), "I cannot find that order in the system.");
    }
    let reason = |agent: &Agent| agent.scorer.explain(&agent.window, &[]).0;
    assert_eq!(reason(&alone), "the same input 4 times in the last 4 calls");
    assert_eq!(reason(&both), "the same input 4 times and the same answer 3 times in the last 4 calls");
}

#[test]
fn literal_counting_names_the_unchanging_message_and_the_tool() {
    let (mut agent, mut chat) = (Agent::with(20, 100.0, Counting::Literal), Conversation::new("Fix it."));
    for n in 0..5 {
        chat.step(&mut agent, &[("run", json!({}), sentence(n))]);
    }
    agent.call(&chat.body(), words("done"));
    let (reason, _) = agent.scorer.explain(&agent.window, &["run".to_owned()]);
    assert_eq!(reason, "the same tool call run 5 times and the same input 6 times in the last 6 calls");
}
