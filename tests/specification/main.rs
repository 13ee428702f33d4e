//! The specification, scenario by scenario: each test has the name of the scenario that it checks, and its comments quote
//! the scenario's WHEN and THEN. docs/specification.md lists all scenarios, including those that other tests check.
//!
//! If a scenario applies to both ways of counting, both are checked.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

mod common;

mod configuration;
mod document;
mod enforcement;
mod filter;
mod literal;
mod normalization;
mod proxy;
mod reasons;
mod scenarios;
mod scoring;
mod simhash;
mod simulation;
mod smaller_cases;
mod state;
mod waiting;

use agent_kill_switch::decode::request::{Reading, request};
use agent_kill_switch::fingerprint::{Fingerprint, Fingerprinter};
use agent_kill_switch::turn::Turn;
use agent_kill_switch::wire::Counting;
use lab::Format;
use lab::chat::Request;
use serde_json::{Value, json};

/// Both ways of counting.
const COUNTINGS: [Counting; 2] = [Counting::Literal, Counting::Progress];

fn fingerprint(text: &str) -> Fingerprint {
    let mut fingerprinter = Fingerprinter::default();
    fingerprinter.push(text.as_bytes());
    fingerprinter.finish()
}

/// Returns the Hamming distance of two texts.
fn distance(a: &str, b: &str) -> u32 {
    fingerprint(a).simhash.distance(fingerprint(b).simhash)
}

fn turn(body: &Value, counting: Counting) -> Turn {
    let body = body.to_string();
    request(b"/v1/chat/completions", body.as_bytes(), Reading::new(counting), &mut Fingerprinter::default()).unwrap()
}

/// Returns a chat request with this body.
fn chat(body: Value) -> Request {
    Request::new(Format::OpenAiChat, "/v1/chat/completions", body)
}

/// Returns a chat request with one user message.
fn ask(text: &str) -> Request {
    chat(json!({"messages": [{"role": "user", "content": text}]}))
}
