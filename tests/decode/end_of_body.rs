//! Decoding only the end of a long body: the result is that of the whole body, or there is none.

use agent_kill_switch::decode::request::{Reading, end_of_request};
use agent_kill_switch::fingerprint::Fingerprinter;
use agent_kill_switch::turn::Turn;
use agent_kill_switch::wire::Counting;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{APIS, decode_as};

const COUNTINGS: [Counting; 2] = [Counting::Progress, Counting::Literal];
const CHAT: &str = "/v1/chat/completions";

/// Decodes the last bytes of a body, from `cut` on.
fn decode_end(counting: Counting, path: &str, body: &[u8], cut: usize) -> Option<Turn> {
    let mut text = Fingerprinter::default();
    let start = |bytes| body[..body.len().min(bytes)].to_vec();
    let turn = end_of_request(path.as_bytes(), body.get(cut..)?, start, Reading::new(counting), &mut text);
    assert!(text.is_empty(), "the fingerprinter is finished");
    turn
}

/// Decodes every end of a body. Returns how many were enough; each of these must give the result of the whole body.
fn decode_every_end(counting: Counting, path: &str, body: &[u8]) -> usize {
    let whole = decode_as(counting, path, body).ok();
    let ends = (0..body.len()).filter_map(|cut| Some((cut, decode_end(counting, path, body, cut)?)));
    let check = |(cut, turn): (usize, Turn)| {
        let end = String::from_utf8_lossy(&body[cut..]);
        assert_eq!(Some(turn), whole, "{counting:?} {path}: {end}");
    };
    ends.map(check).count()
}

#[test]
fn every_end_of_every_fixture_gives_the_result_of_the_whole_or_none() {
    for api in APIS {
        for name in api.requests() {
            for counting in COUNTINGS {
                decode_every_end(counting, api.path, &api.fixture(name));
            }
        }
    }
}

#[test]
fn the_last_messages_of_a_long_conversation_are_enough() {
    let mut messages: Vec<Value> = Vec::new();
    for turn in 0..40 {
        messages.push(json!({"role": "user", "content": format!("question {turn} about \"quotes\" and {{braces}}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer number {turn}")}));
    }
    messages.push(json!({"role": "user", "content": "and the last one?"}));
    let body = json!({"model": "m", "messages": messages, "tools": [{"type": "function"}]}).to_string();
    for counting in COUNTINGS {
        assert_eq!(
            decode_end(counting, CHAT, body.as_bytes(), body.len() - 600),
            decode_as(counting, CHAT, &body).ok()
        );
        assert!(decode_every_end(counting, CHAT, body.as_bytes()) > body.len() / 2);
    }
}

#[test]
fn the_end_of_anything_but_a_conversation_gives_no_result() {
    for (path, body) in [
        (CHAT, r#"{"prompt": "say it"}"#),
        (CHAT, "not JSON at all"),
        (CHAT, r#"{"messages": [{"role": "user", "content": "cut"#),
        ("/v1/count_tokens", r#"{"messages": [{"role": "user", "content": "hello"}]}"#),
        ("/unknown", r#"{"messages": [{"role": "user", "content": "hello"}]}"#),
    ] {
        assert_eq!(decode_end(Counting::Progress, path, body.as_bytes(), 0), None, "{path} {body}");
    }
}

/// Messages full of quotes and brackets, and among them strings that are not messages.
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
    fn every_end_of_any_body_gives_the_result_of_the_whole_or_none(
        messages in prop::collection::vec(message(), 1..6),
        pretty: bool,
    ) {
        let body = json!({"model": "m", "messages": messages, "stop": ["\\\"]"], "user": "u"});
        let body = if pretty { format!("{body:#}") } else { body.to_string() };
        for counting in COUNTINGS {
            decode_every_end(counting, CHAT, body.as_bytes());
        }
    }
}
