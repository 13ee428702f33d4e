//! Holds docs/specification.md to the tests: what it names exists, and what exists here it names.

use std::path::Path;

const PAGE: &str = include_str!("../../docs/specification.md");

/// Where scenarios are held that the page must name.
const SCENARIOS: [(&str, &str); 6] = [
    ("simhash.rs", include_str!("simhash.rs")),
    ("normalization.rs", include_str!("normalization.rs")),
    ("scoring.rs", include_str!("scoring.rs")),
    ("configuration.rs", include_str!("configuration.rs")),
    ("enforcement.rs", include_str!("enforcement.rs")),
    ("state.rs", include_str!("state.rs")),
];

/// Where a scenario may be held instead of in a test of this crate.
const ELSEWHERE: [&str; 3] = ["sidecar tests", "dashboard tests", "Envoy tests"];

/// The rows of the page's tables of scenarios: a scenario, and what holds it.
fn rows() -> Vec<(&'static str, &'static str)> {
    let scenarios = PAGE.split("\n## What sampling misses").next().unwrap_or_default();
    let row = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ");
    scenarios.lines().filter_map(row).filter(|(scenario, _)| *scenario != "Scenario").collect()
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
    sources.contains(&format!("#[test]\nfn {name}()")) || sources.contains(&format!("#[test]\n    fn {name}()"))
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for directory in ["src", "hot", "tests"] {
        sources(&root.join(directory), &mut text);
    }
    for (scenario, held_by) in rows() {
        for name in names(held_by) {
            assert!(is_test(name, &text), "no test `{name}` for {scenario}");
        }
    }
}

#[test]
fn every_scenario_is_held_somewhere() {
    let rows = rows();
    assert!(rows.len() >= 30, "{} rows", rows.len());
    for (scenario, held_by) in rows {
        let elsewhere = ELSEWHERE.iter().any(|place| held_by.contains(place));
        assert!(elsewhere || names(held_by).next().is_some(), "{scenario} is held by {held_by}");
    }
}

#[test]
fn a_scenario_that_this_crate_holds_has_a_test_of_its_name() {
    for (scenario, held_by) in rows() {
        let own_name = scenario.to_lowercase().replace(' ', "_");
        let held_here = names(held_by).next();
        assert!(held_here.is_none_or(|first| first == own_name), "{scenario} is held by {held_here:?} first");
    }
}

#[test]
fn every_test_of_a_scenario_stands_on_the_page() {
    for (file, source) in SCENARIOS {
        let tests = source.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split_once('('));
        for (name, body) in tests {
            let is_scenario = body.split("#[test]").next().unwrap_or_default().contains("// THEN");
            assert!(!is_scenario || PAGE.contains(&format!("`{name}`")), "`{name}` of {file}");
        }
    }
}
