//! Agents behave alike in every format, and go on where they were refused.

use std::time::Duration;

use lab::agent::{Agent, Kind};
use lab::chat::Caller;
use lab::{Answer, Format, MockLlm};

#[tokio::test]
async fn every_kind_of_agent_lives_in_every_format_whole_and_streamed() {
    let llm = MockLlm::start().await;
    for kind in Kind::ALL {
        let mut lines = Vec::new();
        for format in Format::CHATS {
            for stream in [false, true] {
                let mut agent = Agent::new(kind, Caller::new(llm.url(), "a"), format, stream);
                let calls = agent.run(12, Duration::ZERO, |_| ()).await;
                assert!(calls.iter().all(|call| call.answered()), "{kind:?} {format} {stream}");
                lines.push(calls.iter().map(ToString::to_string).collect::<Vec<_>>());
            }
        }
        assert!(lines.iter().all(|one| *one == lines[0]), "{kind:?} says the same in every format");
    }
}

#[tokio::test]
async fn histories_grow_as_a_real_clients_do() {
    let llm = MockLlm::start().await;
    let mut agent = Agent::new(Kind::ToolCalling, Caller::new(llm.url(), "a"), Format::OpenAiChat, false);
    agent.run(3, Duration::ZERO, |_| ()).await;
    let roles: Vec<Vec<String>> = llm
        .received()
        .iter()
        .map(|request| {
            let messages = request.json()["messages"].as_array().unwrap().clone();
            messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
        })
        .collect();
    assert_eq!(roles[2], ["system", "user", "assistant", "tool", "assistant", "tool"]);
    assert_eq!(roles[0], ["system", "user"]);
}

#[tokio::test]
async fn a_refused_agent_asks_again_and_shows_the_error_in_full() {
    let llm = MockLlm::start().await;
    let refusing = Caller::new(llm.url(), "a").with("x-lab-status", "403").with("x-lab-answer", "unused");
    let mut refused = Agent::new(Kind::Alternating, refusing, Format::Anthropic, false);
    let calls = refused.run(3, Duration::ZERO, |_| ()).await;
    assert!(calls.iter().all(|call| !call.answered() && call.asked == calls[0].asked), "{calls:?}");
    let line = calls[2].to_string();
    assert!(line.contains("403  REFUSED\n") && line.starts_with("   3  Deploy the new release"), "{line}");
}

#[tokio::test]
async fn an_answer_without_the_planned_tool_call_does_not_stop_an_agent() {
    let llm = MockLlm::start().await;
    let caller = Caller::new(llm.url(), "a");
    let mut agent = Agent::new(Kind::Healthy, caller, Format::Gemini, false);
    assert!(agent.call().await.answered());
    llm.enqueue([Answer::text("no tool")]);
    assert!(agent.call().await.answered());
}
