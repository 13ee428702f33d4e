//! Fills in a template: JSON as it goes over the wire, with `"$name"` in place of each value.
//!
//! A placeholder is a whole JSON string, including the quotes, and is replaced by a whole JSON value. So a template is
//! itself valid JSON, and no value can change the structure around it. `"$facts": "..."` stands for any number of
//! members. The template is read once: values are never searched for placeholders, whatever they contain.

use super::Refusal;
use super::date::rfc3339;
use super::message::shortened;

/// The text that follows a placeholder for any number of members.
const MEMBERS_MARK: &str = r#": "...""#;

/// The names of placeholders, and the JSON that replaces them.
pub(super) type Values = Vec<(&'static str, String)>;

/// Returns text as a JSON string.
pub(super) fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "null".to_owned())
}

/// Fills in a template and keeps its line breaks. Placeholders without a value become null.
pub(super) fn fill(template: &str, values: &[(&'static str, String)]) -> String {
    let mut filled = String::with_capacity(2 * template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("\"$") {
        let (name, after) = after.split_once('"').unwrap_or((after, ""));
        filled.push_str(before);
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.map_or("null", |(_, json)| json));
        rest = after.strip_prefix(MEMBERS_MARK).unwrap_or(after);
    }
    filled.push_str(rest);
    filled
}

/// Fills in a template that is one JSON value, and puts it on one line.
pub(super) fn fill_line(template: &str, values: &[(&'static str, String)]) -> String {
    let mut line = String::with_capacity(template.len());
    for part in template.lines() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part.trim_ascii_start());
    }
    fill(&line, values)
}

/// Returns the members of an object, without the braces.
pub(super) fn members(facts: &[(&'static str, String)]) -> String {
    let members: Vec<String> = facts.iter().map(|(name, json)| format!("{}: {json}", json_string(name))).collect();
    members.join(", ")
}

impl Refusal<'_> {
    /// Returns the values that every template may use.
    pub(super) fn values(&self) -> Values {
        let id = format!("kill-switch-{:x}", self.at_ms);
        vec![
            ("message", json_string(&self.message())),
            ("model", json_string(&shortened(self.model.unwrap_or("unknown")))),
            ("item_id", json_string(&format!("{id}-1"))),
            ("id", json_string(&id)),
            ("created", (self.at_ms / 1000).to_string()),
            ("created_at", json_string(&rfc3339(self.at_ms))),
            ("rpc_id", self.matchable_id().unwrap_or("null").to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_placeholder_becomes_its_value_and_values_are_not_filled_in_again() {
        let members = members(&[("a", "1".to_owned()), ("b", "null".to_owned())]);
        let values = [("a", "1".to_owned()), ("b", json_string("x\"y")), ("c", json_string("$a")), ("facts", members)];
        let cases = [
            (r#"{"a": "$a", "b": ["$b", "$none"]}"#, r#"{"a": 1, "b": ["x\"y", null]}"#),
            (r#"["$c"]"#, r#"["$a"]"#),
            (r#"{"$facts": "..."}"#, r#"{"a": 1, "b": null}"#),
        ];
        for (template, filled) in cases {
            assert_eq!(fill(template, &values), filled);
        }
        assert_eq!(fill_line("{\"a\": [\n  1,\n  2\n]}\n", &[]), r#"{"a": [ 1, 2 ]}"#);
    }
}
