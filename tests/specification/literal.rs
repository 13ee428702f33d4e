//! Literal counting, to the letter; and where both ways of counting must agree.

use agent_kill_switch::detect::verdict::Verdict;
use agent_kill_switch::wire::Counting;
use serde_json::json;

use crate::common::{Agent, Conversation, Upstream, killed_at, sentence, words};
use crate::{COUNTINGS, fingerprint, turn};

#[test]
fn the_fresh_input_is_the_last_user_message_always() {
    let mut chat = Conversation::new("Fix the failing test.");
    let mut agent = Agent::with(20, 50.0, Counting::Literal);
    for number in 0..4 {
        let call = [("edit", json!({"new": sentence(number)}), sentence(number + 9))];
        chat.step(&mut agent, &call);
        let input = turn(&chat.body(), Counting::Literal).input;
        assert_eq!(input, fingerprint("Fix the failing test."), "after {} tool results", number + 1);
    }
    let similar: Vec<u32> = agent.scores.iter().map(|score| score.signals.similar_prompts).collect();
    assert_eq!(similar, [0, 1, 2, 3], "through a chain of tool calls that all differ");
}

#[test]
fn the_tool_signature_is_name_and_arguments_whatever_came_back() {
    for counting in COUNTINGS {
        let (mut agent, mut chat) = (Agent::with(20, 50.0, counting), Conversation::new("Run the tests."));
        for number in 0..5 {
            chat.step(&mut agent, &[("run", json!({"command": "cargo test"}), sentence(number))]);
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
            agent.call(&crate::ask("Translate the report."), Upstream::failure(500));
        }
        assert_eq!(agent.last().value(), 4.0, "four similar prompts and nothing else, {counting:?}");
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
            assert_eq!(agent.call(&crate::ask(question), words("ok")), Verdict::Allow, "{question:?}, {counting:?}");
            assert_eq!(agent.last().value(), 0.0);
        }
    }
}

#[test]
fn window_10_threshold_5_ten_times_search_for_files_and_the_eleventh_trips() {
    let mut agent = Agent::with(10, 5.0, Counting::Literal);
    for _ in 0..10 {
        agent.ask(&crate::ask("search for files"));
    }
    assert_eq!(agent.ask(&crate::ask("search for files")).0, Verdict::Kill);
    assert_eq!(agent.last().value(), 9.0, "nine past calls in a window of ten");
    let first = agent.scores.iter().position(|score| score.value() > 5.0);
    assert_eq!(first, Some(6), "left to itself it trips on the seventh");
}
