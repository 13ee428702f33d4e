//! The laboratory: everything around the filter that the demo, the tests and the benchmarks share.
//!
//! - [`scenario`]: the rows of the detector's scenario table, as requests with the answers that they get.
//! - [`chat`]: conversations as real clients send them, in four formats, and the reading of what comes back.
//! - [`wire`]: answers as each service sends them, whole and streamed.
//! - [`corpus`], [`prose`]: texts, the same for the same seed.
//! - [`llm`]: a mock LLM that answers by script and records what reached it.
//! - [`agent`]: agents that hold a conversation over HTTP and report each call.
//! - [`raw`]: HTTP written by hand, for requests that no client library sends.
//! - [`recordings`]: public recordings of agents, if this machine has them.
//! - [`tls`]: certificates, and a client that shows them.
//! - [`proc`]: real Envoys, sidecars and Python clients as child processes that end with their handle.
//! - [`skip`]: notes about tests that cannot run on this machine.
//! - [`mod@envoy_yaml`]: the Envoy configuration that those Envoys run.
//! - [`capabilities`]: what that configuration lets the filter call.
//! - [`mesh`]: mock LLM, sidecar and Envoy together.
//! - [`fleet`]: several Envoys over one or several sidecars.
//! - [`fault`]: a TCP proxy that fails as it is told.
//! - [`drill`]: faults with real processes, and what they cost.
//!
//! It uses none of the filter's code, so that the two cannot share a mistake. Loopback only. Without a network (wasm32) only
//! the scenarios, the wire formats and the texts are built.

// Tooling for tests: a helper that cannot continue panics with a good message, and JSON is read by indexing.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]
#![allow(missing_docs)] // internal: items with a clear name need no documentation

#[cfg(not(target_arch = "wasm32"))]
pub mod agent;
pub mod answer;
pub mod capabilities;
pub mod chat;
pub mod corpus;
#[cfg(not(target_arch = "wasm32"))]
pub mod drill;
pub mod envoy_yaml;
#[cfg(not(target_arch = "wasm32"))]
pub mod fault;
#[cfg(not(target_arch = "wasm32"))]
pub mod fleet;
pub mod format;
pub mod fresh;
#[cfg(not(target_arch = "wasm32"))]
pub mod http;
pub mod json;
#[cfg(not(target_arch = "wasm32"))]
pub mod llm;
#[cfg(not(target_arch = "wasm32"))]
pub mod mesh;
#[cfg(not(target_arch = "wasm32"))]
pub mod proc;
pub mod prose;
#[cfg(not(target_arch = "wasm32"))]
pub mod raw;
pub mod recordings;
pub mod scenario;
pub mod skip;
pub mod sse;
#[cfg(not(target_arch = "wasm32"))]
pub mod tls;
pub mod wire;

pub use answer::{Answer, GateAt, ToolCall};
pub use envoy_yaml::{EnvoyConfig, Filter, envoy_yaml};
pub use format::Format;
#[cfg(not(target_arch = "wasm32"))]
pub use llm::MockLlm;
