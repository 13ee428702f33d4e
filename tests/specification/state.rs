//! Requirement: Kill Switch State Management.

use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::turn::Answer;
use serde_json::json;

use crate::common::{Agent, Upstream, sentence, words};
use crate::proxy::Proxy;
use crate::{COUNTINGS, fingerprint};

fn prompts(agent: &Agent) -> Vec<Fingerprint> {
    agent.window.calls().iter().map(|call| call.input).collect()
}

#[test]
fn sliding_window_storage() {
    for counting in COUNTINGS {
        let mut agent = Agent::with(20, 1000.0, counting);
        for number in 0..3 {
            // WHEN new request is processed
            agent.ask(&crate::ask(&sentence(number)));
            // THEN request fingerprint SHALL be added to agent's sliding window
            let expected: Vec<_> = (0..=number).map(|past| fingerprint(&sentence(past))).collect();
            assert_eq!(prompts(&agent), expected, "{counting:?}");
        }
    }
}

#[test]
fn window_overflow() {
    for counting in COUNTINGS {
        let mut agent = Agent::with(4, 1000.0, counting);
        for number in 0..10 {
            agent.ask(&crate::ask(&sentence(number)));
        }
        // WHEN window exceeds configured size
        // THEN oldest entries SHALL be removed (FIFO)
        let expected: Vec<_> = (6..10).map(|number| fingerprint(&sentence(number))).collect();
        assert_eq!(prompts(&agent), expected, "{counting:?}");
    }
}

#[test]
fn response_hash_capture() {
    let answer = "I cannot find that order in the system.";
    let events = ["I cannot find ", "that order in ", "the system."]
        .map(|piece| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": piece}}]})));
    let streamed = Upstream {
        status: 200,
        content_type: "text/event-stream",
        body: (events.concat() + "data: [DONE]\n\n").into_bytes(),
    };
    for counting in COUNTINGS {
        let mut agent = Agent::with(20, 1000.0, counting);
        let (_, sequence, format) = agent.ask(&crate::ask("Where is my order?"));
        assert_eq!(agent.window.calls()[0].answer, Answer::Unknown);
        // WHEN response is received from LLM
        for response in [&words(answer), &streamed] {
            agent.answer(sequence, format, response);
            // THEN response content SHALL be hashed and stored in window
            assert_eq!(agent.window.calls()[0].answer, Answer::Text(fingerprint(answer)), "{counting:?}");
        }
    }
}

#[test]
fn clear_window_on_activate() {
    for counting in ["literal", "progress"] {
        let mut proxy = Proxy::new(json!({"kill_switch_enabled": true, "counting": counting}));
        assert_eq!(proxy.refused_at(10), Some(6));
        // WHEN agent is activated (from inactive to active)
        proxy.sync(json!({"kill_switch_enabled": true, "counting": counting, "generation": 1}));
        // THEN loop detector sliding window for that agent SHALL be cleared
        assert_eq!(proxy.repeat(), None);
        assert_eq!((proxy.agent.last().value(), proxy.agent.window.calls().len()), (0.0, 1));
        assert_eq!(proxy.refused_at(10), Some(5), "and the same loop is stopped again at its sixth, {counting}");
    }
}
