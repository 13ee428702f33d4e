//! Checks docs/configuration.md against the code: it has exactly the settings that exist, with their defaults and bounds,
//! and its examples are accepted.

use super::Config;
use super::raw::{RawConfig, RawPattern, RawSessionSource, RawSource};
use serde::Deserialize;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/configuration.md");

/// Returns name, default and bounds of each row of a section's table. A default in backticks is a value.
fn rows(title: &str) -> Vec<[&str; 3]> {
    let (_, section) = PAGE.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("a section {title}"));
    let lines = section.lines().take_while(|line| !line.starts_with("## "));
    let row = |line: &'static str| {
        let (name, cells) = line.strip_prefix("| `")?.split_once("` | ")?;
        let mut cells = cells.split(" | ");
        Some([name, cells.next()?, cells.next()?])
    };
    lines.filter_map(row).collect()
}

/// Returns the names that serde knows for an object.
fn names<T: Deserialize<'static>>() -> Vec<String> {
    let message = serde_json::from_str::<T>(r#"{"?": 0}"#).err().map(|error| error.to_string()).unwrap_or_default();
    message.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

fn parse(json: &str) -> Result<String, String> {
    let env = |name: &str| (name == "KILL_SWITCH_TOKEN").then(|| "token".to_owned());
    Config::parse(json.as_bytes(), &env).map(|config| format!("{config:?}")).map_err(|error| error.to_string())
}

/// Checks the table of a section. `around` puts an object with the settings of the table into a whole configuration.
fn check_table(title: &str, names: &[String], path: &str, object: &Value, around: fn(Value) -> Value) {
    let rows = rows(title);
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), names, "the table of section {title}");
    let parse_with = |name: &str, value: Value| {
        let mut object = object.clone();
        object[name] = value;
        parse(&around(object).to_string())
    };
    for [name, default, bounds] in rows {
        let bounds = bounds.replace('`', "");
        let given = if name == "token" { "hidden" } else { r#""""# };
        assert_eq!(parse_with(name, json!("")), Err(format!("{path}{name} ({given}) must be {bounds}")));

        let left_out = parse_with(name, Value::Null);
        match default.trim_matches('`') {
            "required" => assert_eq!(left_out, Err(format!("{path}{name} is required and must be {bounds}"))),
            "none" if !default.starts_with('`') => {
                let config = left_out.unwrap();
                assert!(
                    config.contains(&format!(" {name}: None")) || !config.contains(&format!(" {name}: ")),
                    "{name}"
                );
            }
            value => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
                assert_eq!(parse_with(name, value), left_out, "{name}");
            }
        }
    }
}

#[test]
fn the_page_has_exactly_the_settings_that_exist_with_their_defaults_and_bounds() {
    check_table("Fields", &names::<RawConfig>(), "", &json!({"cluster": "ks"}), |config| config);
    let title = "Where the agent's id comes from";
    check_table(title, &names::<RawSource>(), "agent_id[0].", &json!({"path_prefix": "/a/"}), |source| {
        let header = json!({"header": "x"});
        let source = if source["path_prefix"].is_null() { header } else { source };
        json!({"cluster": "ks", "agent_id": [source]})
    });
    let title = "Which conversation a request belongs to";
    check_table(title, &names::<RawSessionSource>(), "session[0].", &json!({}), |source| {
        let given = source.as_object().is_some_and(|source| source.values().any(|value| !value.is_null()));
        json!({"cluster": "ks", "session": [if given { source } else { json!({"header": "x"}) }]})
    });
    let pattern = json!({"pattern": "x", "placeholder": "<X>"});
    check_table(
        "Patterns",
        &names::<RawPattern>(),
        "patterns[0].",
        &pattern,
        |pattern| json!({"cluster": "ks", "patterns": [pattern]}),
    );
}

#[test]
fn every_example_on_the_page_is_accepted() {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let (mut json, mut yaml) = (0, 0);
    for block in blocks {
        if let Some(example) = block.strip_prefix("json\n") {
            parse(example).unwrap_or_else(|error| panic!("{error} in {example}"));
            json += 1;
        } else if let Some((_, example)) = block.split_once("StringValue\n        value: |") {
            parse(example).unwrap_or_else(|error| panic!("{error} in {example}"));
            yaml += 1;
        }
    }
    assert!(json >= 4 && yaml >= 1, "{json} examples in JSON and {yaml} in YAML");
}
