//! Agent Kill Switch: stops AI agents that are stuck in loops, from inside Envoy.
//!
//! One call through the filter: `decode` turns the body into a [`turn`], whose text has become a fingerprint on the way;
//! `detect` adds it to the agent's window, scores it and decides; `reply` words the refusal.

pub mod codec;
pub mod config;
pub mod decode;
pub mod detect;
pub mod enforce;
pub mod fingerprint;
pub mod headers;
pub mod host;
pub mod identity;
pub mod link;
pub mod metrics;
pub mod number;
pub mod policy;
pub mod reply;
pub mod scan;
pub mod state;
pub mod stream;
pub mod turn;
pub mod wire;
pub mod worker;
