//! Holds docs/configuration.md to the code: exactly the fields that exist, their defaults and bounds, and examples
//! that parse.

use super::Config;
use super::fields::{FIELDS, Field, Flag, PATTERN_FIELDS, SOURCE_FIELDS};

const PAGE: &str = include_str!("../../docs/configuration.md");

fn section(title: &str) -> &'static str {
    let start = PAGE.find(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("a section {title}"));
    let body = &PAGE[start + 4..];
    &body[..body.find("\n## ").unwrap_or(body.len())]
}

/// The first three cells of each row that begins with a field's name, without the marks of code.
fn rows(title: &str) -> Vec<[String; 3]> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        Some([0, 1, 2].map(|column| cells[column].replace('`', "")))
    };
    section(title).lines().filter_map(row).collect()
}

fn default_of(field: &Field) -> String {
    match field {
        Field::Required(_) => "required".into(),
        Field::Text(text) => text.default.map_or("none".into(), |default| default.into()),
        Field::Whole(whole) => whole.default.to_string(),
        Field::Choice(choice) => choice.words[0].into(),
        Field::Flag(flag) => flag.default.to_string(),
        Field::List(list) => default_list(list.name).into(),
    }
}

/// The default of a list, as it would be written.
fn default_list(name: &str) -> &'static str {
    match name {
        "agent_id" => r#"[{"header": "x-agent-id"}]"#,
        "patterns" => "[]",
        _ => "none",
    }
}

fn bounds_of(field: &Field) -> String {
    match field {
        Field::Required(text) | Field::Text(text) => text.bounds.into(),
        Field::Whole(whole) => whole.bounds(),
        Field::Choice(choice) => choice.bounds(),
        Field::Flag(_) => Flag::BOUNDS.into(),
        Field::List(list) => list.bounds(),
    }
}

fn examples(language: &str) -> impl Iterator<Item = &'static str> {
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> = PAGE.split(&fence).skip(1).collect();
    blocks.into_iter().map(|rest| rest.split("\n```").next().unwrap_or_default())
}

fn parse(json: &str) -> Config {
    let env = |name: &str| (name == "KILL_SWITCH_TOKEN").then(|| "token".to_owned());
    Config::parse(json.as_bytes(), &env).unwrap_or_else(|error| panic!("{error} in {json}"))
}

#[test]
fn the_page_documents_exactly_the_fields_that_exist_with_default_and_bounds() {
    let sections =
        [("Fields", FIELDS), ("Where the agent's id comes from", SOURCE_FIELDS), ("Patterns", PATTERN_FIELDS)];
    for (title, fields) in sections {
        let expected: Vec<_> =
            fields.iter().map(|field| [field.name().to_owned(), default_of(field), bounds_of(field)]).collect();
        assert_eq!(rows(title), expected, "the table of section {title}");
    }
}

#[test]
fn every_json_example_parses() {
    let count = examples("json").map(parse).count();
    assert!(count >= 4, "{count} examples");
}

#[test]
fn the_configuration_inside_every_envoy_example_parses() {
    let mut count = 0;
    for yaml in examples("yaml").filter(|yaml| yaml.contains("StringValue")) {
        let value = yaml.split("value: |").nth(1).unwrap_or_default();
        let end = value.rfind('}').map_or(0, |at| at + 1);
        parse(value[..end].trim());
        count += 1;
    }
    assert!(count >= 1, "{count} examples");
}

#[test]
fn the_default_of_a_list_is_what_is_taken_when_it_is_left_out() {
    let [agent_id, patterns] = ["agent_id", "patterns"].map(default_list);
    let written = parse(&format!(r#"{{"cluster": "ks", "agent_id": {agent_id}, "patterns": {patterns}}}"#));
    let left_out = parse(r#"{"cluster": "ks"}"#);
    assert_eq!(written.agent_id, left_out.agent_id);
    assert_eq!(written.patterns.len(), left_out.patterns.len());
}
