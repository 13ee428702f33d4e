//! The reason that a kill event gives is true: a person who counts the calls finds the numbers that it states.

use std::collections::HashSet;

use agent_kill_switch::wire::Counting;
use lab::Answer;
use proptest::prelude::*;
use serde_json::json;

use crate::common::{Agent, conversation, sentence, tool};

/// Parses the first repetition in a reason: `5 times in the last 9 calls` becomes (5, 9).
fn numbers(reason: &str) -> Option<(usize, usize)> {
    let (before, after) = reason.split_once(" times")?;
    let times = before.rsplit(' ').next()?.parse().ok()?;
    let span = after.rsplit_once("in the last ")?.1.strip_suffix(" calls")?.parse().ok()?;
    Some((times, span))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Steps 0 to 2 are the same each time, and higher ones are new each time.
    #[test]
    fn tool_calls_are_counted_as_a_person_counts_them(steps in prop::collection::vec(0usize..6, 2..40)) {
        let (mut agent, mut chat) = (Agent::with(20, 1000.0, Counting::Progress), conversation("Find the bug."));
        let mut results = vec![usize::MAX];
        for (number, &step) in steps.iter().enumerate() {
            let known = step < 3;
            let id = if known { step } else { 100 + number };
            let name = ["list_dir", "read_file", "grep", "edit", "run", "fetch"][step];
            let arguments = if known { json!({}) } else { json!({"n": number}) };
            agent.work(&mut chat, tool(name, arguments, sentence(id as u64)));
            results.push(id);
            // This request brings the result of the step above.
            let mut after = Agent::new();
            after.windows = agent.windows.clone();
            after.ask(&chat.request());
            let (reason, _) = after.scorer.explain(after.window(), &[name.to_owned()]);
            let in_window = &results[results.len().saturating_sub(20)..];
            let times = in_window.iter().filter(|result| **result == id).count();
            if reason.starts_with("a cycle: ") {
                let different: HashSet<_> = in_window.iter().collect();
                let (repeats, calls) = (in_window.len() - different.len(), in_window.len());
                let expected = format!("a cycle: {repeats} of the last {calls} calls repeat an earlier call and its result");
                prop_assert_eq!(reason, expected);
                continue;
            }
            match numbers(&reason) {
                None => prop_assert_eq!(times, 1, "{}", reason),
                Some((said, span)) => {
                    let first = in_window.iter().position(|result| *result == id).unwrap();
                    prop_assert_eq!(said, times, "{}", reason);
                    prop_assert_eq!(span, in_window.len() - first, "{}", reason);
                }
            }
        }
    }
}

#[test]
fn weak_repeats_are_counted_one_by_one_though_two_of_them_score_as_one() {
    let (mut agent, mut chat) = (Agent::new(), conversation("Refactor."));
    for n in 0..9 {
        let step = match n % 2 {
            0 => tool("run", json!({"command": "make check"}), "all checks passed, no warnings"),
            _ => tool("edit", json!({"n": n}), sentence(n)),
        };
        agent.work(&mut chat, step);
    }
    agent.ask(&chat.request());
    let (reason, matches) = agent.scorer.explain(agent.window(), &["run".to_owned()]);
    assert_eq!(reason, "the same tool call run with the same result 5 times in the last 9 calls");
    assert_eq!((matches.len(), agent.last().signals.repeated_tool_calls), (4, 2));
}

#[test]
fn repeated_prompts_and_repeated_answers_are_told_apart() {
    let (mut alone, mut both) = (Agent::new(), Agent::new());
    for n in 0..4 {
        alone.chat("Please go on with the plan.", &sentence(n));
        both.chat(&format!("Where is order #{}?", 7000 + n), "I cannot find that order in the system.");
    }
    let reason = |agent: &Agent| agent.scorer.explain(agent.window(), &[]).0;
    assert_eq!(reason(&alone), "the same input 4 times in the last 4 calls");
    assert_eq!(reason(&both), "the same input 4 times and the same answer 3 times in the last 4 calls");
}

#[test]
fn literal_counting_names_the_unchanging_message_and_the_tool() {
    let (mut agent, mut chat) = (Agent::with(20, 100.0, Counting::Literal), conversation("Fix it."));
    for n in 0..5 {
        agent.work(&mut chat, tool("run", json!({}), sentence(n)));
    }
    agent.call(&chat.request(), &Answer::text("done"));
    let (reason, _) = agent.scorer.explain(agent.window(), &["run".to_owned()]);
    assert_eq!(reason, "the same tool call run 5 times and the same input 6 times in the last 6 calls");
}
