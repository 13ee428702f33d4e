//! Requirement: Kill Switch State Management.

use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::turn::Answer;
use serde_json::json;

use crate::common::{Agent, sentence};
use crate::proxy::Proxy;
use crate::{COUNTINGS, fingerprint};

fn prompts(agent: &Agent) -> Vec<Fingerprint> {
    agent.window().calls().iter().map(|call| call.input).collect()
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
    let text = "I cannot find that order in the system.";
    for counting in COUNTINGS {
        for stream in [false, true] {
            let mut agent = Agent::with(20, 1000.0, counting);
            let mut request = crate::ask("Where is my order?");
            request.body["stream"] = json!(stream);
            let (_, pending) = agent.ask(&request);
            assert_eq!(agent.window().calls()[0].answer, Answer::Unknown);
            // WHEN response is received from LLM
            agent.answer(&pending, &lab::Answer::text(text));
            // THEN response content SHALL be hashed and stored in window
            let stored = agent.window().calls()[0].answer;
            assert_eq!(stored, Answer::Text(fingerprint(text)), "{counting:?}, stream: {stream}");
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
        assert_eq!((proxy.agent.last().value(), proxy.agent.window().calls().len()), (0.0, 1));
        assert_eq!(proxy.refused_at(10), Some(5), "and the same loop is stopped again at its sixth, {counting}");
    }
}
