//! The laboratory: everything around the filter that demo, end-to-end tests and benchmarks share.
//!
//! - [`llm`]: a mock LLM that speaks the services' real wire formats, answers by script, and records what reached it.
//! - [`chat`]: conversations as real clients send them, in four formats, and the reading of what comes back.
//! - [`scenario`]: the rows of the detector's scenario table, as requests with the answers that they get.
//! - [`agent`]: the same as living agents that report each call.
//! - [`raw`]: HTTP by hand, for what no client sends.
//! - [`recordings`]: public recordings of agents, where this machine has them.
//! - [`tls`]: certificates, and a client that shows them.
//! - [`mesh`]: mock LLM, sidecar and Envoy together.
//! - [`proc`]: real Envoys, sidecars and Python clients as child processes that end with their handle.
//! - [`skip`]: notes about tests that cannot run on this machine.
//! - [`mod@envoy_yaml`]: the Envoy configuration that those Envoys run.
//!
//! Knows nothing of the filter's code, so that both cannot be wrong in the same way. Loopback only.

// Tooling for tests: where a helper cannot go on, a panic with a good message is the result that its caller wants, and
// indexing into JSON is how a wire format is read.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

pub mod agent;
pub mod answer;
pub mod chat;
pub mod envoy_yaml;
pub mod format;
pub mod fresh;
pub mod http;
pub mod json;
pub mod llm;
pub mod mesh;
pub mod proc;
pub mod prose;
pub mod raw;
pub mod recordings;
pub mod scenario;
pub mod skip;
pub mod sse;
pub mod tls;

pub use answer::{Answer, ToolCall};
pub use envoy_yaml::{EnvoyConfig, Filter, envoy_yaml};
pub use format::Format;
pub use llm::MockLlm;
