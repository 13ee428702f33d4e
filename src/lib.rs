//! Agent Kill Switch: stops AI agents that are stuck in loops, from inside Envoy.

pub mod policy;
pub mod turn;
pub mod wire;
