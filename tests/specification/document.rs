//! Checks docs/specification.md against the tests: every test that it names exists, and it names every scenario here.

use std::path::Path;

use crate::scenarios::PLAYED;

const PAGE: &str = include_str!("../../docs/specification.md");

/// The files whose scenarios the page must name.
const SCENARIOS: [(&str, &str); 6] = [
    ("simhash.rs", include_str!("simhash.rs")),
    ("normalization.rs", include_str!("normalization.rs")),
    ("scoring.rs", include_str!("scoring.rs")),
    ("configuration.rs", include_str!("configuration.rs")),
    ("enforcement.rs", include_str!("enforcement.rs")),
    ("state.rs", include_str!("state.rs")),
];

/// Tests outside this crate that may cover a scenario.
const ELSEWHERE: [&str; 3] = ["sidecar tests", "dashboard tests", "Envoy tests"];

/// Returns the rows of the tables in the page's specification part: a scenario, and the tests that cover it.
fn rows() -> Vec<(&'static str, &'static str)> {
    table_rows(PAGE.split("\n## Sequences of calls").next().unwrap_or_default())
}

/// Returns the rows of the table of sequences: a row of the scenario table, and the tests that cover it.
fn sequences() -> Vec<(&'static str, &'static str)> {
    let (_, rest) = PAGE.split_once("\n## Sequences of calls").unwrap();
    table_rows(rest.split("\n## ").next().unwrap_or_default())
}

fn table_rows(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let row = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ");
    text.lines().filter_map(row).filter(|(first, _)| !["Scenario", "Row"].contains(first)).collect()
}

fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

fn is_test(name: &str, sources: &str) -> bool {
    ["#[test]\nfn", "#[test]\n    fn", "#[tokio::test]\nasync fn", ")]\nasync fn"]
        .iter()
        .any(|start| sources.contains(&format!("{start} {name}()")))
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for directory in ["src", "tests", "sidecar/tests"] {
        sources(&root.join(directory), &mut text);
    }
    for (scenario, tests) in rows().into_iter().chain(sequences()) {
        for name in names(tests) {
            let is_row = PLAYED.contains(&(scenario, name));
            assert!(is_row || is_test(name, &text), "no test `{name}` for {scenario}");
        }
    }
}

#[test]
fn every_row_of_the_scenario_table_is_on_the_page_with_its_test() {
    let page: Vec<_> = sequences().into_iter().map(|(row, tests)| (row, names(tests).next().unwrap())).collect();
    for played in PLAYED {
        assert!(page.contains(played), "{played:?}");
    }
}

#[test]
fn every_scenario_has_tests() {
    let rows = rows();
    assert!(rows.len() >= 30, "{} rows", rows.len());
    for (scenario, tests) in rows {
        let elsewhere = ELSEWHERE.iter().any(|place| tests.contains(place));
        assert!(elsewhere || names(tests).next().is_some(), "{scenario}: {tests}");
    }
}

#[test]
fn the_first_test_of_a_scenario_has_its_name() {
    for (scenario, tests) in rows() {
        let own_name = scenario.to_lowercase().replace(' ', "_");
        let first = names(tests).next();
        assert!(first.is_none_or(|first| first == own_name), "{scenario}: {first:?}");
    }
}

#[test]
fn every_test_of_a_scenario_is_on_the_page() {
    for (file, source) in SCENARIOS {
        let tests = source.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split_once('('));
        for (name, body) in tests {
            let is_scenario = body.split("#[test]").next().unwrap_or_default().contains("// THEN");
            assert!(!is_scenario || PAGE.contains(&format!("`{name}`")), "`{name}` of {file}");
        }
    }
}
