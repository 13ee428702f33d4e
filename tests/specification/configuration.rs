//! Requirement: Kill Switch Configuration.

use agent_kill_switch::wire::Counting;
use serde_json::json;

use crate::COUNTINGS;
use crate::common::{Agent, sentence};
use crate::proxy::Proxy;

#[test]
fn enable_kill_switch() {
    for counting in ["literal", "progress"] {
        // WHEN user enables kill switch for an agent
        let mut proxy = Proxy::new(json!({"counting": counting}));
        assert_eq!(proxy.refused_at(10), None);
        proxy.sync(json!({"counting": counting, "kill_switch_enabled": true}));
        // THEN loop detection SHALL be active for that agent's requests
        assert_eq!(proxy.refused_at(10), Some(6), "{counting}");
    }
}

#[test]
fn disable_kill_switch() {
    // WHEN kill switch is disabled (default)
    for fields in [json!({}), json!({"kill_switch_enabled": false, "kill_switch_threshold": 0.5})] {
        let mut proxy = Proxy::new(fields.clone());
        // THEN loop detection SHALL NOT block any requests
        assert_eq!(proxy.refused_at(100), None, "{fields}");
        assert!(proxy.agent.scores.is_empty(), "nothing is scored either");
    }
}

#[test]
fn configure_window_size() {
    for counting in COUNTINGS {
        for size in [2, 5, 20, 100] {
            // WHEN user sets window_size to N
            let mut agent = Agent::with(size, 1000.0, counting);
            for _ in 0..size + 5 {
                agent.ask_in_vain(&crate::ask("Where is my order?"));
            }
            // THEN loop detection SHALL analyze the last N requests
            assert_eq!(agent.last().signals.similar_prompts, size - 1, "window {size}, {counting:?}");
            assert_eq!(agent.window().calls().len(), size as usize);
        }
    }
    for (others, similar) in [(3, 1), (4, 0)] {
        let mut agent = Agent::with(5, 1000.0, Counting::Literal);
        agent.ask(&crate::ask("Where is my order?"));
        for number in 0..others {
            agent.ask(&crate::ask(&sentence(number)));
        }
        agent.ask(&crate::ask("Where is my order?"));
        assert_eq!(agent.last().signals.similar_prompts, similar, "{others} others in a window of 5");
    }
}

#[test]
fn configure_threshold() {
    // The requests of a plain loop score 0, 1, 4, 7, 10, 13, 16.
    let cases = [(0.5, 2), (1.0, 3), (3.9, 3), (4.0, 4), (7.0, 5), (9.9, 5), (10.0, 6), (12.9, 6), (13.0, 7)];
    for (threshold, stopped_at) in cases {
        for counting in ["literal", "progress"] {
            for action in ["deactivate", "block"] {
                // WHEN user sets score threshold to T
                let mut proxy = Proxy::new(json!({"kill_switch_enabled": true, "kill_switch_threshold": threshold,
                    "counting": counting, "action": action}));
                // THEN agent SHALL be deactivated (earlier form: requests SHALL be blocked) when score exceeds T
                assert_eq!(proxy.refused_at(10), Some(stopped_at), "threshold {threshold}, {counting}, {action}");
                assert_eq!(proxy.record.active, action == "block");
            }
        }
    }
}
