//! Agents that wait: a policy can ignore single tools, or count them only from a number of times on.

use agent_kill_switch::detect::tools;
use agent_kill_switch::detect::verdict::Verdict;
use agent_kill_switch::wire::Counting;
use lab::chat::{Conversation, Input};
use lab::{Answer, Format, ToolCall};
use serde_json::json;

use crate::common::{Agent, killed_at, sentence, tool};

/// An agent whose policy has these rules, with a window of 20 and a threshold of 10.
fn agent(counting: Counting, rules: &str) -> Agent {
    let mut agent = Agent::with(20, 10.0, counting);
    agent.tools = tools::encode(&serde_json::from_str(rules).unwrap(), 20);
    agent
}

/// Plays calls of one tool that always has the same result, and returns the number of the result that is refused.
fn refused_result(agent: &mut Agent, format: Format, name: &str) -> Option<usize> {
    let mut conversation = Conversation::new(format, false);
    conversation.say(&Input::Open("Wait until the export is done, then tell me.".to_owned()));
    // The first request brings the task and no result.
    let step = || tool(name, json!({"job": 7}), "The job is still running on worker three.");
    assert_eq!(agent.work(&mut conversation, step()), Verdict::Allow);
    killed_at(50, |_| agent.work(&mut conversation, step()))
}

#[test]
fn waiting_for_a_job_is_killed_unless_the_tool_is_ignored_or_counted_from_a_number_on() {
    let rules = r#"{"wait_for_job": "ignore", "get_status": 20, "poll": 5}"#;
    for format in [Format::OpenAiChat, Format::Anthropic, Format::Gemini, Format::OllamaChat] {
        for (counting, usual) in [(Counting::Progress, 6), (Counting::Literal, 5)] {
            for (rules, name, expected) in [
                ("{}", "wait_for_job", Some(usual)),
                (rules, "read_file", Some(usual)),
                (rules, "wait_for_job", None),
                (rules, "get_status", Some(20)),
                (rules, "poll", Some(usual)),
            ] {
                let refused = refused_result(&mut agent(counting, rules), format, name);
                assert_eq!(refused, expected, "{name} in {format:?} with {counting:?} counting and {rules}");
            }
        }
    }
}

#[test]
fn a_loop_is_killed_although_ignored_calls_are_in_between() {
    let mut agent = agent(Counting::Progress, r#"{"wait": "ignore"}"#);
    let mut conversation = crate::common::conversation("Deploy the service.");
    let mut deployments = 0;
    let killed = killed_at(200, |number| match number % 20 {
        0 => {
            deployments += 1;
            agent.work(&mut conversation, tool("deploy", json!({}), "Error: the registry does not answer."))
        }
        // Waiting brings something new each time, which is not news.
        _ => agent.work(&mut conversation, tool("wait", json!({"seconds": number}), sentence(number as u64))),
    });
    assert!(killed.is_some_and(|call| call % 20 == 2), "the result of a deployment is refused: {killed:?}");
    assert_eq!(deployments, 6);
}

#[test]
fn a_call_of_an_ignored_tool_beside_another_one_is_counted() {
    let mut agent = agent(Counting::Progress, r#"{"wait": "ignore"}"#);
    let mut conversation = crate::common::conversation("Look at the log until it says done.");
    let killed = killed_at(30, |_| {
        let tool_calls = vec![ToolCall::new("wait", json!({})), ToolCall::new("read_file", json!({"path": "log"}))];
        let calls = Answer { tool_calls, ..Answer::default() }.with_ids();
        let verdict = agent.call(&conversation.request(), &calls);
        conversation.hear(&calls);
        conversation.say(&Input::Results(vec!["waited".to_owned(), "nothing was written to the log".to_owned()]));
        verdict
    });
    assert_eq!(killed, Some(7));
}

#[test]
fn a_question_after_an_ignored_call_does_not_belong_to_the_tool() {
    let scores = |rules: &str, tools: &[&str]| {
        let mut agent = agent(Counting::Progress, rules);
        let mut conversation = Conversation::new(Format::OpenAiChat, false);
        for _ in 0..4 {
            conversation.say(&Input::User("Is the export of all orders done?".to_owned()));
            for name in tools {
                agent.work(&mut conversation, tool(name, json!({"job": 7}), "It is still running on worker three."));
            }
            let answer = Answer::text("The export is still running.");
            agent.call(&conversation.request(), &answer);
            conversation.hear(&answer);
        }
        conversation.say(&Input::User("Is the export of all orders done?".to_owned()));
        agent.call(&conversation.request(), &Answer::text("No."));
        agent.last().signals
    };
    let ignored = scores(r#"{"wait": "ignore"}"#, &["wait"]);
    assert_eq!((ignored.similar_prompts, ignored.repeated_tool_calls), (4, 0), "it is the user's question four times");
}

#[test]
fn waiting_is_no_silence_and_does_not_end_a_run() {
    let mut agent = agent(Counting::Progress, r#"{"wait": "ignore"}"#);
    let mut conversation = crate::common::conversation("Deploy the service.");
    let killed = killed_at(100, |number| {
        agent.now_ms += 50_000;
        match number % 5 {
            0 => agent.work(&mut conversation, tool("deploy", json!({}), "Error: the registry does not answer.")),
            _ => agent.work(&mut conversation, tool("wait", json!({}), "waited for 50 seconds")),
        }
    });
    assert!(killed.is_some(), "250 seconds pass between two deployments, but the agent is never silent for 120");
}

#[test]
fn a_number_is_reached_although_an_ignored_call_takes_a_place_in_the_window() {
    let mut agent = agent(Counting::Progress, r#"{"wait": "ignore", "get_status": 20}"#);
    let mut conversation = crate::common::conversation("Wait until the export is done.");
    let killed = killed_at(200, |number| match number % 2 {
        0 => agent.work(&mut conversation, tool("get_status", json!({}), "The job is still running.")),
        _ => agent.work(&mut conversation, tool("wait", json!({}), "waited")),
    });
    // 19 results of get_status and one ignored call fill the window.
    assert_eq!(killed, Some(38));
}
