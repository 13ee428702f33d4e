//! The specification, scenario by scenario: each test has the name of the scenario that it holds, and its comments are
//! the scenario's own WHEN and THEN. docs/specification.md lists them all, with those that are held elsewhere.
//!
//! Where both ways of counting apply, both are held to the scenario.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // helpers of tests

#[path = "../common/mod.rs"]
mod common;

mod configuration;
mod document;
mod enforcement;
mod literal;
mod normalization;
mod proxy;
mod scoring;
mod simhash;
mod smaller_cases;
mod state;

use agent_kill_switch::decode::request::request;
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use agent_kill_switch::turn::Turn;
use agent_kill_switch::wire::Counting;
use serde_json::{Value, json};

/// Both ways of counting.
const COUNTINGS: [Counting; 2] = [Counting::Literal, Counting::Progress];

fn fingerprint(text: &str) -> Fingerprint {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish()
}

/// The Hamming distance of two texts.
fn distance(a: &str, b: &str) -> u32 {
    fingerprint(a).simhash.distance(fingerprint(b).simhash)
}

fn turn(body: &Value, counting: Counting) -> Turn {
    let body = body.to_string();
    request(b"/v1/chat/completions", body.as_bytes(), counting, &mut Fingerprinter::default()).unwrap()
}

/// A request with one user message.
fn ask(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}
