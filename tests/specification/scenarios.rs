//! The rows of the scenario table, each as a test of its own: sequences that other loop detectors get wrong, and loops
//! that must be stopped.
//!
//! Default settings: window 20, threshold 10, counting `progress`, unless the row says otherwise. The sequences and the
//! expected verdicts are those of `lab::scenario`, which tests/envoy plays through a real Envoy. Here they go through the
//! filter's own stream, with a clock that the test sets.

use lab::chat::{Conversation, Input};
use lab::scenario::{self, Closes, Scenario, Sent, Step, Verdict};
use lab::{Answer, Format};
use serde_json::json;

use crate::ask;
use crate::common::Agent;
use crate::filter::Filter;

/// Plays a scenario and checks its verdict. Returns the filter as the last call left it.
fn play(scenario: &Scenario) -> Filter {
    let filter = Filter::new(&scenario.settings);
    for round in 1..=scenario.rounds {
        let refused = play_round(scenario, &filter);
        let checked = scenario.verdict.check(refused);
        checked.unwrap_or_else(|problem| panic!("{} round {round}: {problem}: {}", scenario.name, scenario.title));
        assert_eq!(filter.reports(), if refused.is_some() { round } else { 0 }, "{}: reported kills", scenario.name);
        filter.activate();
    }
    if scenario.verdict == Verdict::Ignore {
        assert!(filter.scores.borrow().is_empty(), "{}: scored as a call", scenario.name);
    }
    filter
}

/// Returns the number of the first call that is refused, counted from 1. Calls after it are not made.
fn play_round(scenario: &Scenario, filter: &Filter) -> Option<usize> {
    let mut calls = 0;
    for group in scenario.groups() {
        if let [Step { sent: Sent::Later(seconds), .. }, ..] = group {
            filter.wait_seconds(*seconds);
        }
        let forwarded: Vec<_> = group.iter().map_while(|step| filter.send(&step.request)).collect();
        calls += forwarded.len();
        if forwarded.len() < group.len() {
            return Some(calls + 1);
        }
        for (forwarded, step) in forwarded.into_iter().zip(group) {
            filter.answer(forwarded, &step.answer, step.closes);
        }
    }
    None
}

fn play_all(row: &str) -> Vec<Filter> {
    scenario::variants(row).map(|scenario| play(&scenario)).collect()
}

/// A test for each row that plays all of its variants.
macro_rules! rows {
    ($($test:ident: $row:literal,)*) => {
        $(#[test]
        fn $test() {
            play_all($row);
        })*
        /// Each row with its test.
        pub const PLAYED: &[(&str, &str)] = &[$(($row, stringify!($test))),*];
    };
}

rows! {
    row_1_thirty_different_tool_steps_after_one_user_message_are_allowed: "1",
    row_2_edit_and_run_tests_fifteen_times_with_changing_output_is_allowed: "2",
    row_3_polling_ten_times_with_a_changing_result_is_allowed: "3",
    row_4_polling_four_times_with_an_unchanged_result_is_allowed: "4",
    row_5_nine_empty_continue_commands_with_different_results_are_allowed: "5",
    row_6_twenty_ranges_of_one_file_are_allowed: "6",
    row_7_grep_move_and_update_imports_over_twenty_files_is_allowed: "7",
    row_8_one_shell_tool_a_hundred_times_with_new_ids_and_results_is_allowed: "8",
    row_9_a_verification_with_the_same_result_among_distinct_calls_is_allowed: "9",
    row_10_thirty_edits_with_the_same_empty_success_are_allowed: "10",
    row_11_one_answer_with_a_hundred_similar_functions_or_a_long_table_is_allowed: "11",
    row_12_three_files_read_again_after_compaction_three_times_are_allowed: "12",
    row_13_a_tool_called_once_is_allowed: "13",
    row_14_identical_parallel_calls_in_one_answer_are_allowed: "14",
    row_15_twenty_sessions_with_one_template_prompt_are_allowed: "15",
    row_16_a_request_retried_three_times_after_server_errors_is_allowed: "16",
    row_17_server_errors_to_thirty_different_prompts_are_allowed: "17",
    row_18_the_same_declared_tools_in_every_request_are_allowed: "18",
    row_19_a_batch_agent_with_fifty_different_tickets_is_allowed: "19",
    row_20_thirty_anthropic_calls_with_block_content_are_allowed: "20",
    row_22_polling_over_mcp_with_a_client_that_closes_at_the_result_is_allowed: "22",
    row_23_a_streamed_loop_whose_client_closes_at_the_last_event_is_killed_at_the_sixth: "23",
    row_24_requests_that_are_not_calls_are_not_scored: "24",
    row_25_forty_tries_during_an_outage_are_allowed: "25",
    row_26_a_client_that_gives_up_and_asks_the_same_again_is_killed: "26",
    row_27_two_hundred_users_who_ask_the_same_question_are_allowed: "27",
    row_28_fifty_healthy_conversations_under_one_id_are_allowed: "28",
    row_29_a_looping_conversation_among_healthy_ones_is_killed_by_its_eighth_call: "29",
    row_30_the_same_short_run_every_ten_minutes_is_allowed: "30",
    row_31_the_same_prompt_and_answer_every_45_seconds_is_killed_at_the_sixth: "31",
    row_32_twelve_identical_requests_in_flight_count_as_one: "32",
    row_33_different_results_in_system_or_developer_messages_are_allowed: "33",
    row_34_a_tool_that_times_out_five_times_before_another_is_used_is_allowed: "34",
    row_35_answers_that_differ_in_one_deciding_word_are_not_the_same_answer: "35",
    row_36_a_question_asked_again_after_eight_empty_answers_is_allowed: "36",
    row_p1_the_same_tool_call_with_the_same_error_is_killed_by_the_seventh: "P1",
    row_p2_results_that_differ_only_in_timestamps_and_ids_are_killed: "P2",
    row_p3_alternating_two_and_cycling_three_steps_is_killed: "P3",
    row_p4_continue_fifteen_times_with_rephrased_answers_is_killed: "P4",
    row_p5_the_same_prompt_refused_as_wrong_is_killed_at_the_sixth: "P5",
    row_p6_prompts_that_differ_in_order_numbers_and_timestamps_are_killed_at_the_sixth: "P6",
    row_p7_streamed_loops_are_killed_at_the_sixth: "P7",
    row_p8_forty_identical_requests_at_once_are_killed: "P8",
    row_p9_killed_activated_and_killed_again_at_the_sixth: "P9",
    row_p10_the_same_mcp_call_with_the_same_result_is_killed: "P10",
    row_p11_cycles_of_four_to_seven_steps_are_killed_by_the_end_of_the_fifth_round: "P11",
    row_p12_the_same_failing_result_twelve_times_in_a_row_is_killed_whatever_the_call: "P12",
    row_p13_a_result_that_differs_only_in_its_own_quoted_id_is_killed_by_the_eighth: "P13",
    row_p14_the_same_action_in_text_with_the_same_error_is_killed_by_the_tenth: "P14",
    an_mcp_call_whose_result_changes_is_allowed: "mcp-pages",
    an_agent_that_acts_in_text_is_judged_by_what_came_back: "acts-in-text",
}

#[test]
fn every_row_has_a_test() {
    for name in scenario::names() {
        let row = name.split('/').next().unwrap();
        assert!(PLAYED.iter().any(|(played, _)| *played == row), "row {row}");
    }
}

fn highest(filter: &Filter) -> f64 {
    filter.scores.borrow().iter().map(|sample| sample.score).fold(0.0, f64::max)
}

#[test]
fn the_highest_scores_of_allowed_rows_are_as_expected() {
    let expected = [("4", 7.5), ("6", 0.0), ("11", 0.0), ("13", 0.0), ("16", 0.0), ("18", 0.0), ("20", 0.0)];
    for (row, score) in expected.into_iter().chain([("25", 0.0), ("32/alone", 0.0)]) {
        for filter in play_all(row) {
            assert_eq!(highest(&filter), score, "row {row}");
        }
    }
}

#[test]
fn row_14_five_identical_parallel_calls_count_as_one() {
    for filter in play_all("14") {
        assert_eq!(filter.scores.borrow().last().unwrap().signals.repeated_tool_calls, 2);
    }
}

#[test]
fn row_21_two_requests_in_flight_each_answer_lands_on_its_own_call() {
    let (capital, paris) = ("What is the capital of France?", "The capital of France is Paris.");
    let (faust, goethe) = ("Who wrote Faust, and when did it appear?", "Goethe wrote it; part one appeared in 1808.");
    let mut agent = Agent::new();
    let (_, first) = agent.ask(&ask(capital));
    let (_, second) = agent.ask(&ask(faust));
    agent.answer(&second, &Answer::text(goethe));
    agent.answer(&first, &Answer::text(paris));
    let mut expected = Agent::new();
    expected.chat(capital, paris);
    expected.chat(faust, goethe);
    let answers = |agent: &Agent| agent.window().calls().iter().map(|call| call.answer).collect::<Vec<_>>();
    assert_eq!(answers(&agent), answers(&expected));
}

#[test]
fn row_11_neither_similar_functions_nor_a_long_table_are_a_loop_inside_one_answer() {
    for filter in play_all("11") {
        assert_eq!(filter.answer_loops(), 0);
    }
}

#[test]
fn row_p15_an_answer_that_repeats_itself_is_reported_or_cut_off() {
    let line = "I apologize for the confusion, let me try that once more for you now. ";
    let requests = [Format::OpenAiChat, Format::Anthropic, Format::OllamaChat, Format::Gemini].map(|format| {
        let mut conversation = Conversation::new(format, true);
        conversation.say(&Input::User("Where is my order?".to_owned()));
        conversation.request()
    });
    for (rounds, reported) in [(14, 0), (15, 1), (500, 1)] {
        for request in &requests {
            let filter = Filter::new(&json!({}));
            filter.answer(filter.send(request).unwrap(), &Answer::text(line.repeat(rounds)), Closes::AtEnd);
            assert_eq!((filter.answer_loops(), filter.cuts()), (reported, 0), "{rounds} rounds");
            assert!(filter.send(request).is_some(), "the agent goes on");

            let filter = Filter::new(&json!({"answer_loop": "cut"}));
            filter.answer(filter.send(request).unwrap(), &Answer::text(line.repeat(rounds)), Closes::AtEnd);
            assert_eq!((filter.cuts() as u64, filter.reports() as u64), (reported, reported), "{rounds} rounds");
            assert_eq!(filter.send(request).is_none(), reported == 1, "the retry is refused");
        }
    }
}

#[test]
fn row_30_is_a_loop_if_no_silence_ends_a_run() {
    let settings = json!({"idle_reset_seconds": 0});
    play(&Scenario { settings, verdict: Verdict::KillBy(20), ..scenario::row("30") });
}

#[test]
fn row_p6_the_fifth_request_is_exactly_at_the_threshold() {
    for filter in play_all("P6") {
        let scores: Vec<f64> = filter.scores.borrow().iter().map(|sample| sample.score).collect();
        assert_eq!(scores[4..], [10.0, 13.0], "the fifth is not above the threshold; the sixth is 5 x 1 + 4 x 2");
    }
}

#[test]
fn row_p8_the_twelfth_of_forty_identical_requests_trips_before_any_answer() {
    assert_eq!(play_all("P8")[0].scores.borrow().len(), 12);
}
