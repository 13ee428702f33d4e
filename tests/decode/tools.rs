//! Tool signatures: which sets of calls are the same.

use agent_kill_switch::turn::Format;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::*;

#[test]
fn the_order_and_the_number_of_identical_calls_do_not_matter() {
    assert_eq!(signature(&[FIND, LOOK]), signature(&[LOOK, FIND]));
    assert_eq!(signature(&[FIND, FIND, FIND, LOOK]), signature(&[FIND, LOOK]));
}

#[test]
fn the_order_of_keys_white_space_and_escapes_do_not_matter() {
    for arguments in [
        r#"{"city":"Zürich","status":"open","limit":20}"#,
        r#"{"limit": 20, "city": "Zürich", "status": "open"}"#,
        "\n{\n\t\"status\" : \"open\",\r\n \"limit\" :20 ,\"city\":\"Zürich\"}  ",
        r#"{"c\u0069ty": "Z\u00FCrich", "status": "\u006fpen", "limit": 20}"#,
    ] {
        assert_eq!(signature(&[("find_orders", arguments)]), signature(&[FIND]), "{arguments}");
    }
}

#[test]
fn any_difference_in_the_arguments_makes_another_call() {
    let differ = [
        ("f", r#"{"a": 1}"#),
        ("g", r#"{"a": 1}"#),
        ("f", r#"{"a": 2}"#),
        ("f", r#"{"a": "1"}"#),
        ("f", r#"{"a": 1.5}"#),
        ("f", r#"{"a": [1]}"#),
        ("f", r#"{"a": [[1]]}"#),
        ("f", r#"{"a": {"a": 1}}"#),
        ("f", r#"{"a": true}"#),
        ("f", r#"{"a": null}"#),
        ("f", r#"{"a": "A"}"#),
        ("f", r#"{"a": "a"}"#),
        ("f", r#"{"b": 1}"#),
        ("f", r#"{"a": 1, "b": 1}"#),
        ("f", r#"{"a": [1, 2]}"#),
        ("f", r#"{"a": [2, 1]}"#),
        ("f", r#"{"a": {"b": 1}, "c": {"d": 2}}"#),
        ("f", r#"{"a": {"d": 2}, "c": {"b": 1}}"#),
        ("f", "{}"),
        ("f", "[]"),
        ("f", "not json"),
        ("f", "{not json"),
        ("read_file", r#"{"path": "a.rs", "from": 1, "to": 40}"#),
        ("read_file", r#"{"path": "a.rs", "from": 41, "to": 80}"#),
    ];
    for (index, one) in differ.iter().enumerate() {
        for other in &differ[..index] {
            assert_ne!(signature(&[*one]), signature(&[*other]), "{one:?} {other:?}");
        }
    }
}

#[test]
fn missing_arguments_equal_empty_arguments() {
    assert_eq!(signature(&[("f", "")]), signature(&[("f", "{}")]));
    assert_eq!(signature(&[("f", " \n")]), signature(&[("f", "{ }")]));
    let whole = r#"{"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}}]}"#;
    assert_eq!(json_answer(Format::OpenAiChat, whole), calls(&[("f", "{}")]));
}

#[test]
fn arguments_may_be_a_string_or_an_object() {
    for arguments in [r#"{"a": [1, {"b": "x"}]}"#, r#""{\"a\": [1, {\"b\": \"x\"}]}""#] {
        let body = format!(
            r#"{{"messages": [{{"role": "assistant", "tool_calls": [{{"function": {{"name": "f", "arguments": {arguments}}}}}]}},
                {{"role": "tool", "content": "x"}}]}}"#
        );
        let turn = decode("/v1/chat/completions", body).unwrap();
        assert_eq!(turn.tools, results(&[("f", r#"{"a": [1, {"b": "x"}]}"#)]), "{arguments}");
    }
}

#[test]
fn names_are_listed_once_and_within_limits() {
    let list = |names: &[String]| {
        let mut calls = agent_kill_switch::decode::tools::ToolCalls::default();
        names.iter().for_each(|name| calls.add_text(name.as_bytes(), b"{}"));
        calls.into_parts().1
    };
    assert_eq!(list(&["a".into(), "b".into(), "".into(), "a".into()]), ["a", "b"]);
    let many: Vec<_> = (0..1000).map(|index| format!("tool_{index}")).collect();
    let listed = list(&many);
    assert_eq!(listed, many[..listed.len()]);
    assert!((88..=96).contains(&listed.join(", ").len()), "{listed:?}");
    assert_eq!(list(&["x".repeat(5000), "short".into()]), ["short"]);
}

fn shuffled(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<_> = members
                .iter()
                .rev()
                .map(|(key, value)| format!("\t{} : {}", Value::from(key.as_str()), shuffled(value)))
                .collect();
            format!("{{ {} }}", members.join(" , "))
        }
        Value::Array(elements) => {
            format!("[\n{}\n]", elements.iter().map(shuffled).collect::<Vec<_>>().join(" ,\n"))
        }
        scalar => scalar.to_string(),
    }
}

proptest! {
    #[test]
    fn the_order_of_keys_never_matters(
        members in prop::collection::btree_map("[a-d\"\\\\ü]{0,3}", "[^x]{0,8}", 0..5),
        outer in prop::collection::vec(any::<i32>(), 0..4),
    ) {
        let inner: Value = members.into_iter().collect();
        let value = serde_json::json!({"list": outer, "inner": inner, "more": [inner.clone(), true, null]});
        let (one, other) = (value.to_string(), shuffled(&value));
        prop_assert_eq!(signature(&[("f", &one)]), signature(&[("f", &other)]), "{} {}", one, other);
    }
}
