//! Agent Kill Switch: stops AI agents that are stuck in loops, from inside Envoy.
//!
//! One call through the filter: `decode` turns the body into a [`turn`], whose text has become a fingerprint on the way;
//! `detect` adds it to the agent's window, scores it and decides; `reply` words the refusal.

pub mod codec;
pub mod config;
pub mod decode;
pub mod detect;
pub mod policy;
pub mod reply;
pub mod turn;
pub mod wire;
