//! The fast pipeline and the naive one find the same fingerprint, in every bit, on bodies of every shape.
#![allow(clippy::expect_used)] // a test fails by panicking

use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::wire::Counting;
use bench::body::{Body, Shape};
use bench::naive;
use bench::pipeline::Pipeline;
use proptest::prelude::*;
use serde_json::json;

const SHAPES: [Shape; 6] =
    [Shape::Message, Shape::History, Shape::Image, Shape::Tools, Shape::ToolsLiteral, Shape::Chinese];

fn both(body: &str, counting: Counting) -> [Fingerprint; 2] {
    let fast = Pipeline::new(counting).decode(body.as_bytes()).expect("a chat request").input;
    let (naive, _) = naive::decode(body.as_bytes(), counting).expect("a chat request");
    [fast, naive]
}

#[test]
fn both_pipelines_agree_on_the_bodies_that_are_measured() {
    let mut informative = 0;
    for shape in SHAPES {
        // Above 100 KB of text the fast pipeline samples, and Chinese counts double.
        for kilobytes in [2, 10, 40] {
            for seed in 0..5 {
                let body = Body { shape, kilobytes };
                let [fast, naive] = both(&body.text(seed), body.counting());
                assert_eq!(fast, naive, "{body}, seed {seed}");
                informative += u32::from(fast.informative);
            }
        }
    }
    assert_eq!(informative, 6 * 3 * 5, "every body is informative");
}

#[test]
fn both_pipelines_recognise_equal_and_different_calls() {
    let of = |seed| {
        let text = Body { shape: Shape::Tools, kilobytes: 4 }.text(seed);
        let fast = Pipeline::new(Counting::Progress).decode(text.as_bytes()).expect("a chat request").tools;
        let (_, naive) = naive::decode(text.as_bytes(), Counting::Progress).expect("a chat request");
        [fast, naive]
    };
    assert!(of(1).iter().all(|tools| tools.signature().is_some()));
    assert_eq!(of(1), of(1));
    assert!(of(1).iter().zip(of(2)).all(|(one, other)| *one != other));
}

/// Generates words, and everything that the normaliser replaces.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,20}",
        "(id|attempt|retry|Attempt) [0-9]{1,5}",
        "[#_-]?[0-9]{1,6}[_-]?",
        "[0-9]{1,3}([.,][0-9]{1,3}){0,3}",
        "[0-9a-f]{6,20}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?Z?)?",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[а-яА-Я]{1,12}",
        "[\\u{4e00}-\\u{4e40}，。]{1,9}",
        "[ \\t\\n.,:;\"\\\\/]{1,3}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn both_pipelines_agree_on_any_text(first in text(), second in text(), prefilled: bool) {
        let mut messages = vec![
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "assistant", "content": "How can I help?"}),
            json!({"role": "user", "content": first}),
            json!({"role": "user", "content": [{"type": "text", "text": second}]}),
        ];
        if prefilled {
            messages.push(json!({"role": "assistant", "content": "Well,"}));
        }
        let body = json!({"messages": messages}).to_string();
        for counting in [Counting::Progress, Counting::Literal] {
            let [fast, naive] = both(&body, counting);
            prop_assert_eq!(fast, naive);
        }
    }
}
