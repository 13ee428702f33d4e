//! The end of a long body, read alone: it tells what all of the body tells, or nothing.

use agent_kill_switch::decode::request::end_of_request;
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::turn::Turn;
use agent_kill_switch::wire::Counting;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{APIS, decode_as};

const COUNTINGS: [Counting; 2] = [Counting::Progress, Counting::Literal];
const CHAT: &str = "/v1/chat/completions";

fn decode_end(counting: Counting, path: &str, end: &[u8]) -> Option<Turn> {
    let mut text = Fingerprinter::default();
    let turn = end_of_request(path.as_bytes(), end, counting, &mut text);
    assert!(text.is_empty(), "nothing leaks into the next text");
    turn
}

/// How many ends of the body tell something. Each of these must tell what all of it tells.
fn telling_ends(counting: Counting, path: &str, body: &[u8]) -> usize {
    let whole = decode_as(counting, path, body).ok();
    let ends = (0..body.len()).filter_map(|cut| Some((cut, decode_end(counting, path, body.get(cut..)?)?)));
    let check = |(cut, turn): (usize, Turn)| {
        let end = String::from_utf8_lossy(&body[cut..]);
        assert_eq!(Some(turn), whole, "{counting:?} {path}: {end}");
    };
    ends.map(check).count()
}

#[test]
fn every_end_of_every_fixture_tells_what_all_of_it_tells_or_nothing() {
    for api in APIS {
        let with_tools: &[&str] = if api.has_tools { &["request_result.json", "request_parallel.json"] } else { &[] };
        for name in with_tools.iter().chain(&["request_user.json"]) {
            for counting in COUNTINGS {
                telling_ends(counting, api.path, &api.fixture(name));
            }
        }
    }
}

#[test]
fn the_last_messages_of_a_long_history_are_enough() {
    let mut messages: Vec<Value> = Vec::new();
    for turn in 0..40 {
        messages.push(json!({"role": "user", "content": format!("question {turn} about \"quotes\" and {{braces}}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer number {turn}")}));
    }
    messages.push(json!({"role": "user", "content": "and the last one?"}));
    let body = json!({"model": "m", "messages": messages, "tools": [{"type": "function"}]}).to_string();
    for counting in COUNTINGS {
        let end = &body.as_bytes()[body.len() - 600..];
        assert_eq!(decode_end(counting, CHAT, end), decode_as(counting, CHAT, &body).ok());
        assert!(telling_ends(counting, CHAT, body.as_bytes()) > body.len() / 2);
    }
}

#[test]
fn what_is_no_conversation_at_its_end_tells_nothing() {
    for (path, body) in [
        (CHAT, r#"{"prompt": "say it"}"#),
        (CHAT, "not JSON at all"),
        (CHAT, r#"{"messages": [{"role": "user", "content": "cut"#),
        ("/v1/count_tokens", r#"{"messages": [{"role": "user", "content": "hello"}]}"#),
        ("/unknown", r#"{"messages": [{"role": "user", "content": "hello"}]}"#),
    ] {
        assert_eq!(decode_end(Counting::Progress, path, body.as_bytes()), None, "{path} {body}");
    }
}

/// Messages full of what JSON is made of, with strings among them that are no messages.
fn message() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![r#"["\\{}\[\],: ]{0,9}"#, r#"(\{"role": "user"\}|\\|"|a){0,4}"#].prop_map(Value::from);
    let role = prop_oneof![Just("user"), Just("assistant"), Just("tool"), Just("system")];
    let content = prop_oneof![
        text(),
        prop::collection::vec(text().prop_map(|text| json!({"type": "text", "text": text})), 0..3)
            .prop_map(Value::from)
    ];
    prop_oneof![
        6 => (role, content).prop_map(|(role, content)| json!({"role": role, "content": content})),
        1 => text(),
    ]
}

proptest! {
    #[test]
    fn wherever_a_body_is_cut_its_end_tells_the_truth_or_nothing(
        messages in prop::collection::vec(message(), 1..6),
        pretty: bool,
    ) {
        let body = json!({"model": "m", "messages": messages, "stop": ["\\\"]"], "user": "u"});
        let body = if pretty { format!("{body:#}") } else { body.to_string() };
        for counting in COUNTINGS {
            telling_ends(counting, CHAT, body.as_bytes());
        }
    }
}
