//! Compares the JSON reader with serde_json.

use agent_kill_switch::decode::json::{Json, RawStr};
use agent_kill_switch::scan::Malformed;
use proptest::prelude::*;
use serde_json::Value;

/// Builds a value from a walk from the first to the last member.
fn forwards(json: Json<'_>) -> Result<Value, Malformed> {
    if json.is_object() {
        let members =
            json.members().map(|member| member.and_then(|(key, value)| Ok((unescaped(key), forwards(value)?))));
        return members.collect::<Result<serde_json::Map<_, _>, _>>().map(Value::Object);
    }
    if json.is_array() {
        return json.elements().map(|element| forwards(element?)).collect::<Result<_, _>>().map(Value::Array);
    }
    Ok(scalar(json))
}

/// Builds a value from a walk from the last to the first member.
fn backwards(json: Json<'_>) -> Result<Value, Malformed> {
    if json.is_object() {
        let members =
            json.members_back().map(|member| member.and_then(|(key, value)| Ok((unescaped(key), backwards(value)?))));
        let mut members = members.collect::<Result<Vec<_>, _>>()?;
        members.reverse();
        return Ok(Value::Object(members.into_iter().collect()));
    }
    if json.is_array() {
        let mut elements = json.elements_back().map(|element| backwards(element?)).collect::<Result<Vec<_>, _>>()?;
        elements.reverse();
        return Ok(Value::Array(elements));
    }
    Ok(scalar(json))
}

fn unescaped(string: RawStr<'_>) -> String {
    String::from_utf8(string.unescaped().into_owned()).unwrap()
}

fn scalar(json: Json<'_>) -> Value {
    match json.string() {
        Some(string) => Value::String(unescaped(string)),
        None => serde_json::from_slice(json.text()).unwrap(),
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        r#"["\\{}\[\],: ]{0,12}"#.prop_map(String::from),
        "(messages|content|[a-c]){1}".prop_map(String::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Writes a value as text, with white space and escapes in different styles.
fn written(value: &Value, style: u8) -> String {
    let text = if style & 1 == 0 { value.to_string() } else { serde_json::to_string_pretty(value).unwrap() };
    if style & 2 == 0 {
        return text;
    }
    let mut escaped = String::new();
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            let mut units = [0; 2];
            character.encode_utf16(&mut units).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        }
    }
    format!(" \r\n\t{escaped}\n ")
}

proptest! {
    #[test]
    fn both_directions_find_what_serde_json_finds(value in any_json(), style in 0u8..4) {
        let text = written(&value, style);
        let root = Json::root(text.as_bytes()).unwrap();
        prop_assert_eq!(&forwards(root).unwrap(), &value, "{}", text);
        prop_assert_eq!(&backwards(root).unwrap(), &value, "{}", text);
    }

    #[test]
    fn get_finds_what_serde_json_finds(value in any_json(), name in "(messages|content|[a-c]){1}") {
        let text = value.to_string();
        let found = Json::root(text.as_bytes()).unwrap().get(&name).unwrap();
        prop_assert_eq!(found.map(|found| forwards(found).unwrap()), value.get(&name).cloned());
    }

    #[test]
    fn escaped_text_equals_the_text(text in any::<String>(), other in any::<String>()) {
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        for json in [format!("\"{escaped}\""), serde_json::to_string(&text).unwrap()] {
            let string = Json::root(json.as_bytes()).unwrap().string().unwrap();
            prop_assert!(string.is(&text));
            prop_assert_eq!(string.is(&other), text == other);
            prop_assert_eq!(unescaped(string), text.clone());
        }
    }

    #[test]
    fn json_that_was_cut_short_is_always_detected(value in any_json(), at in 0usize..1000) {
        let text = value.to_string();
        let cut = &text.as_bytes()[..at % text.len()];
        if matches!(text.as_bytes()[0], b'{' | b'[' | b'"') {
            prop_assert_eq!(Json::root(cut).and_then(forwards), Err(Malformed));
        }
    }

    #[test]
    fn both_directions_agree_on_any_bytes(text in r#"[\[\]{}":,\\ 1a]{0,40}"#) {
        if let Ok(root) = Json::root(text.as_bytes()) {
            let ahead: Option<Vec<_>> = root.elements().map(Result::ok).collect();
            let back: Option<Vec<_>> = root.elements_back().map(Result::ok).collect();
            if let (Some(ahead), Ok(_)) = (&ahead, serde_json::from_str::<Value>(&text)) {
                prop_assert_eq!(Some(ahead.iter().rev().copied().collect::<Vec<_>>()), back);
            }
        }
    }
}
