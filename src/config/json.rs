//! JSON as the operator wrote it: members in their order, duplicates kept.
//!
//! serde_json's own tree would silently keep the last of two equal keys, and a derived struct would report a wrong type
//! by line and column rather than by field. Keeping everything lets the caller name the field in each case. Meant for a
//! few kilobytes of configuration, not for request bodies.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// A value as an error message shows it: short, on one line, and only the kind of what may hold more.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        match self {
            Self::Null => f.write_str("null"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => match text.char_indices().nth(LONGEST) {
                Some((end, _)) => write!(f, "{:?}...", text.get(..end).unwrap_or_default()),
                None => write!(f, "{text:?}"),
            },
            Self::List(list) => write!(f, "a list of {}", list.len()),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json, E> {
        Ok(Json::Flag(flag))
    }

    // Every bound in the configuration lies far below 2^53, so a double holds each acceptable number exactly; and a
    // configuration that came through a protobuf Struct has only doubles anyway.
    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = entries.next_entry()? {
            members.push(member);
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_and_their_order_are_kept() {
        let json: Json = serde_json::from_str(r#"{"b": 1, "a": [null, true], "b": "x"}"#).unwrap();
        let expected = Json::Object(vec![
            ("b".into(), Json::Number(1.0)),
            ("a".into(), Json::List(vec![Json::Null, Json::Flag(true)])),
            ("b".into(), Json::Text("x".into())),
        ]);
        assert_eq!(json, expected);
    }

    #[test]
    fn a_shown_value_is_short_and_on_one_line() {
        let cases = [
            (Json::Number(8.0), "8"),
            (Json::Number(2.5), "2.5"),
            (Json::Text("8".into()), r#""8""#),
            (Json::Text("a\nb".into()), r#""a\nb""#),
            (Json::List(vec![Json::Null]), "a list of 1"),
            (Json::Object(vec![]), "an object"),
        ];
        for (json, shown) in cases {
            assert_eq!(json.to_string(), shown);
        }
        let long = Json::Text("é".repeat(1000)).to_string();
        assert_eq!(long, format!("\"{}\"...", "é".repeat(60)));
    }

    #[test]
    fn nesting_without_end_is_refused_and_does_not_overflow() {
        assert!(serde_json::from_str::<Json>(&"[".repeat(100_000)).is_err());
    }
}
