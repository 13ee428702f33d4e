//! Literal counting, and cases in which both ways of counting must agree.

use agent_kill_switch::detect::verdict::Verdict;
use agent_kill_switch::wire::Counting;
use lab::Answer;
use serde_json::json;

use crate::common::{Agent, conversation, killed_at, sentence, tool};
use crate::{COUNTINGS, ask, fingerprint, turn};

#[test]
fn the_fresh_input_is_the_last_user_message_always() {
    let mut chat = conversation("Fix the failing test.");
    let mut agent = Agent::with(20, 50.0, Counting::Literal);
    for number in 0..4 {
        agent.work(&mut chat, tool("edit", json!({"new": sentence(number)}), sentence(number + 9)));
        let input = turn(&chat.request().body, Counting::Literal).input;
        assert_eq!(input, fingerprint("Fix the failing test."), "after {} tool results", number + 1);
    }
    let similar: Vec<u32> = agent.scores.iter().map(|score| score.signals.similar_prompts).collect();
    assert_eq!(similar, [0, 1, 2, 3], "through a chain of tool calls that all differ");
}

#[test]
fn the_tool_signature_is_name_and_arguments_whatever_came_back() {
    for counting in COUNTINGS {
        let (mut agent, mut chat) = (Agent::with(20, 50.0, counting), conversation("Run the tests."));
        for number in 0..5 {
            agent.work(&mut chat, tool("run", json!({"command": "cargo test"}), sentence(number)));
        }
        let expected = if counting == Counting::Literal { 3 } else { 0 };
        assert_eq!(agent.last().signals.repeated_tool_calls, expected, "{counting:?}");
    }
}

#[test]
fn failed_calls_have_no_response_to_compare() {
    for counting in COUNTINGS {
        let mut agent = Agent::with(20, 50.0, counting);
        for _ in 0..5 {
            agent.call(&ask("Translate the report."), &Answer::error(500, "The server had an error."));
        }
        let expected = if counting == Counting::Literal { 4.0 } else { 0.0 };
        assert_eq!(
            agent.last().value(),
            expected,
            "four similar prompts, or one attempt after the other, {counting:?}"
        );
    }
}

#[test]
fn both_ways_of_counting_agree_on_the_plain_loop() {
    let run = |counting| {
        let mut agent = Agent::with(20, 10.0, counting);
        let killed = killed_at(10, |number| {
            let question = format!("Where is order #{}? It is 2024-01-15T10:0{number}:00Z.", 4711 + number);
            agent.chat(&question, "I cannot find that order in the system.")
        });
        (killed, agent.scores)
    };
    let (literal, progress) = (run(Counting::Literal), run(Counting::Progress));
    assert_eq!(literal, progress);
    assert_eq!(literal.0, Some(6));
    assert_eq!(literal.1[4].value(), 10.0, "the fifth is exactly at the threshold");
    assert_eq!(literal.1[5].value(), 13.0, "the sixth exceeds it");
}

#[test]
fn a_first_request_is_never_a_loop() {
    for counting in COUNTINGS {
        for question in ["", "ok", "Where is my order?", "7"] {
            let mut agent = Agent::with(2, 0.1, counting);
            assert_eq!(agent.chat(question, "ok"), Verdict::Allow, "{question:?}, {counting:?}");
            assert_eq!(agent.last().value(), 0.0);
        }
    }
}

#[test]
fn window_10_threshold_5_ten_times_search_for_files_and_the_eleventh_trips() {
    let mut agent = Agent::with(10, 5.0, Counting::Literal);
    for _ in 0..10 {
        agent.ask(&ask("search for files"));
    }
    assert_eq!(agent.ask(&ask("search for files")).0, Verdict::Kill);
    assert_eq!(agent.last().value(), 9.0, "nine past calls in a window of ten");
    let first = agent.scores.iter().position(|score| score.value() > 5.0);
    assert_eq!(first, Some(6), "left to itself it trips on the seventh");
}
