//! Filling in a shape: JSON as it goes over the wire, with `"$name"` where a value belongs.
//!
//! A placeholder is a whole JSON string, quotes included, and is replaced by a whole JSON value, so that a shape is
//! itself valid JSON and no value can break out of its place. `"$facts": "..."` stands for any number of members. One
//! pass: what is filled in is never looked at again, whatever it contains.

use super::Refusal;
use super::date::rfc3339;
use super::words::echo;

/// What follows a placeholder that stands for members.
const SPREAD: &str = r#": "...""#;

/// Names and the JSON that takes their place.
pub(super) type Values = Vec<(&'static str, String)>;

/// Text as JSON.
pub(super) fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "null".to_owned())
}

/// Fills in a shape whose line breaks matter.
pub(super) fn fill(shape: &str, values: &[(&'static str, String)]) -> String {
    let mut filled = String::with_capacity(2 * shape.len());
    let mut rest = shape;
    while let Some((before, after)) = rest.split_once("\"$") {
        let (name, after) = after.split_once('"').unwrap_or((after, ""));
        filled.push_str(before);
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.map_or("null", |(_, json)| json));
        rest = after.strip_prefix(SPREAD).unwrap_or(after);
    }
    filled.push_str(rest);
    filled
}

/// Fills in a shape that is one JSON value, on one line.
pub(super) fn fill_line(shape: &str, values: &[(&'static str, String)]) -> String {
    let mut line = String::with_capacity(shape.len());
    for part in shape.lines() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part.trim_ascii_start());
    }
    fill(&line, values)
}

/// Members of an object, without its braces.
pub(super) fn members(facts: &[(&'static str, String)]) -> String {
    let members: Vec<String> = facts.iter().map(|(name, json)| format!("{}: {json}", text(name))).collect();
    members.join(", ")
}

impl Refusal<'_> {
    /// What every shape may use.
    pub(super) fn values(&self) -> Values {
        let id = format!("kill-switch-{:x}", self.at_ms);
        vec![
            ("message", text(&self.message())),
            ("model", text(&echo(self.model.unwrap_or("unknown")))),
            ("item_id", text(&format!("{id}-1"))),
            ("id", text(&id)),
            ("created", (self.at_ms / 1000).to_string()),
            ("created_at", text(&rfc3339(self.at_ms))),
            ("rpc_id", self.matchable_id().unwrap_or("null").to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_replaced_with_its_quotes_and_others_are_null() {
        let values = [("a", "1".to_owned()), ("b", text("x\"y"))];
        assert_eq!(fill(r#"{"a": "$a", "b": ["$b", "$none"]}"#, &values), r#"{"a": 1, "b": ["x\"y", null]}"#);
    }

    #[test]
    fn what_is_filled_in_is_not_filled_in_again() {
        let values = [("a", text("$b")), ("b", text("never"))];
        assert_eq!(fill(r#"["$a"]"#, &values), r#"["$b"]"#);
    }

    #[test]
    fn a_spread_becomes_members() {
        let values = [("facts", members(&[("a", "1".to_owned()), ("b", "null".to_owned())]))];
        assert_eq!(fill(r#"{"$facts": "..."}"#, &values), r#"{"a": 1, "b": null}"#);
    }

    #[test]
    fn a_shape_of_several_lines_is_sent_on_one() {
        assert_eq!(fill_line("{\"a\": [\n  1,\n  2\n]}\n", &[]), r#"{"a": [ 1, 2 ]}"#);
    }
}
