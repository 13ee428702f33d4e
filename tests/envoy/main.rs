//! The filter in a real Envoy with the real sidecar. Each file tests one promise.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test fails by panicking

mod actions;
mod answer_loop;
mod answers;
mod capabilities;
mod discovery;
mod examples;
mod faults;
mod holding;
mod hostile_input;
mod identity;
mod loop_is_killed;
mod many_kills;
mod observability;
mod official_clients;
mod outages;
mod partition;
mod pause;
mod privacy;
mod propagation;
mod replay_agrees;
mod sessions;
mod sidecar_down;
mod sidecar_lies;
mod story;
mod support;
mod unjudged;
mod waiting;
mod worker_traps;
