//! Agents behave in the same way in every format, and repeat a call that was refused.

use lab::agent::{Agent, Kind};
use lab::chat::Caller;
use lab::{Answer, Format, MockLlm};

#[tokio::test]
async fn every_kind_of_agent_works_in_every_format_whole_and_streamed() {
    let llm = MockLlm::start().await;
    for kind in Kind::ALL {
        let mut lines = Vec::new();
        for format in Format::CHATS {
            for stream in [false, true] {
                let mut agent = Agent::new(kind, Caller::new(llm.url(), "a"), format, stream);
                let calls = agent.run(32).await;
                assert!(calls.iter().all(|call| call.answered()), "{kind:?} {format} {stream}");
                lines.push(calls.iter().map(ToString::to_string).collect::<Vec<_>>());
            }
        }
        assert!(lines.iter().all(|one| *one == lines[0]), "{kind:?} says the same in every format");
    }
}

#[tokio::test]
async fn histories_grow_as_those_of_real_clients_do() {
    let llm = MockLlm::start().await;
    let mut agent = Agent::new(Kind::ToolCalling, Caller::new(llm.url(), "a"), Format::OpenAiChat, false);
    agent.run(3).await;
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
    let refusal = "agent a is inactive: it was deactivated by the kill switch, and a person must activate it again";
    let refusing = always(&llm, &Answer::error(403, refusal));
    let mut refused = Agent::new(Kind::Alternating, refusing, Format::Anthropic, false);
    let calls = refused.run(3).await;
    assert!(calls.iter().all(|call| !call.answered() && call.asked == calls[0].asked), "{calls:?}");
    let line = calls[2].to_string();
    assert!(line.starts_with("   3  Deploy the new release"), "{line}");
    assert!(line.ends_with(&format!("403  REFUSED\n      {refusal}")), "{line}");
}

#[tokio::test]
async fn an_answer_without_the_planned_tool_call_does_not_stop_an_agent() {
    let llm = MockLlm::start().await;
    let mut agent = Agent::new(Kind::Healthy, always(&llm, &Answer::text("no tool")), Format::Gemini, false);
    let calls = agent.run(4).await;
    assert!(calls.iter().all(|call| call.to_string().ends_with("200  no tool")), "{calls:?}");
    assert!(calls[3].asked.starts_with("read_file -> "), "{}", calls[3].asked);
}

/// Returns a caller that always gets this answer, whatever its agent has planned.
fn always(llm: &MockLlm, answer: &Answer) -> Caller {
    Caller::new(llm.url(), "a").with("x-lab-script", &answer.to_header())
}
