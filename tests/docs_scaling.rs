//! The table of docs/scaling.md is what its formulas give with the numbers on the page and the lengths in the code.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

use std::collections::BTreeMap;

use agent_kill_switch::entries::ITEM_BYTES;
use agent_kill_switch::wire::{AgentEntries, AgentObservation, EntryReport, ScoreSample, Signals};
use serde::Serialize;

const PAGE: &str = include_str!("../docs/scaling.md");

/// Returns the rows of the table that follows a marker, without its two lines of headings.
fn table(marker: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(marker).unwrap_or_else(|| panic!("the page has no {marker}"));
    let lines = rest.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns the numbers that the page states, by their letters.
fn numbers() -> BTreeMap<&'static str, f64> {
    let number =
        |row: Vec<&'static str>| (row[0].trim_matches('`'), row[1].split(' ').next().unwrap().parse().unwrap());
    table("<!-- numbers -->").into_iter().map(number).collect()
}

/// Formats a number to two digits, with separators between thousands.
fn rounded(number: f64) -> String {
    if number < 0.1 {
        return "< 0.1".to_owned();
    }
    if number < 10.0 {
        return format!("{number:.1}").trim_end_matches(".0").to_owned();
    }
    let step = 10_f64.powf(number.log10().floor() - 1.0);
    let digits = format!("{:.0}", (number / step).round() * step);
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

fn bytes(number: f64) -> String {
    match number {
        small if small < 1e3 => format!("{} B", rounded(small)),
        medium if medium < 1e6 => format!("{} KB", rounded(medium / 1e3)),
        large => format!("{} MB", rounded(large / 1e6)),
    }
}

#[test]
fn the_lengths_on_the_page_are_those_of_the_code() {
    let numbers = numbers();
    assert_eq!(numbers["i"], (ITEM_BYTES as f64 * 4.0 / 3.0).round(), "an item in base64");
    let name = "n".repeat(16);
    let agent = AgentEntries { agent_id: name.clone(), generation: 1, entries: String::new() };
    assert_eq!(numbers["g"], length(&agent) + 1.0, "an agent in a report, and a comma");
    let (envoy, sender) = (name.clone(), name.clone());
    let report = EntryReport { envoy, sender, version: 9, sent_ms: 1_700_000_000_000, agents: Vec::new() };
    assert_eq!(numbers["j"], length(&report), "the rest of a report");
    let score = ScoreSample { at_ms: 1_700_000_000_000, sequence: 100, score: 1.5, signals: Signals::default() };
    let seen =
        AgentObservation { agent_id: name, requests: 1, last_seen_ms: score.at_ms, ..AgentObservation::default() };
    assert_eq!(numbers["a"], length(&seen), "an agent in an observation");
    let with_score = AgentObservation { scores: vec![score], ..seen.clone() };
    assert_eq!(numbers["s"], length(&with_score) - length(&seen), "a score in an observation");
}

fn length(value: &impl Serialize) -> f64 {
    serde_json::to_vec(value).unwrap().len() as f64
}

#[test]
fn the_table_is_what_the_formulas_give() {
    let n = numbers();
    let mut expected = Vec::new();
    for envoys in [100.0, 1_000.0, 10_000.0] {
        for calls in [10.0, 1_000.0, 100_000.0] {
            let senders = n["w"] * envoys;
            let polls = envoys / 4.0;
            let observations = f64::min(calls, senders).max(calls / 100.0);
            let reports = f64::min(2.0 * calls, senders / 0.15);
            let exchanged = 2.0 * calls * (n["i"] + n["g"]) + reports * n["j"];
            let sent = 2.0 * calls * (n["i"] + n["g"])
                + calls * (n["a"] + n["s"])
                + (reports + observations) * (n["j"] + n["t"])
                + polls * n["q"];
            let written = f64::min(calls, 10_000.0);
            let stored = f64::min(2.0 * calls, 34_000.0);
            let cores = polls * n["p"] + reports * n["r"] + 2.0 * calls * n["e"] + stored * n["d"] + written * n["o"];
            let row = [
                rounded(envoys),
                rounded(calls),
                rounded(polls + observations + reports),
                bytes(sent),
                rounded(cores / 1e6),
                bytes(exchanged),
                rounded(f64::min(2.0 * 10.0, reports)),
                rounded(written),
                rounded(envoys * n["c"]),
            ];
            expected.push(format!("| {} |", row.join(" | ")));
        }
    }
    let found: Vec<_> = table("<!-- computed -->").iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    assert_eq!(found, expected, "the table must be:\n{}\n", expected.join("\n"));
}
