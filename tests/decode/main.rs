//! Wire formats: what requests and answers of every API decode to.
//!
//! The fixtures of all APIs contain the same conversation (the same question, two tool calls, their results and the
//! answer), so one table of expectations holds for all of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test fails by panicking

mod anthropic;
mod bad_input;
mod bedrock;
mod end_of_body;
mod every_format;
mod format;
mod gemini;
mod json_oracle;
mod ollama_and_cohere;
mod openai;
mod outcomes;
mod responses;
mod rpc;
mod selection;
mod streams;
mod support;
mod tools;
mod usage;
