//! JSON as the operator wrote it: members in their order, duplicates kept.
//!
//! serde_json's own tree would silently keep the last of two equal keys, and a derived struct would report a wrong type
//! by line and column rather than by field. Keeping everything lets the caller name the field in each case. Meant for a
//! few kilobytes of configuration, not for request bodies.

use crate::number::shown;
use std::fmt;

/// One JSON value.
///
/// Every bound in the configuration lies far below 2^53, so a double holds each acceptable number exactly; and a
/// configuration that came through a protobuf Struct has only doubles anyway.
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
            Self::Number(number) => f.write_str(&shown(*number)),
            Self::Text(text) => match text.char_indices().nth(LONGEST) {
                Some((end, _)) => write!(f, "{:?}...", text.get(..end).unwrap_or_default()),
                None => write!(f, "{text:?}"),
            },
            Self::List(list) => write!(f, "a list of {}", list.len()),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
