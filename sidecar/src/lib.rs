//! The sidecar of the agent kill switch.

pub mod clock;
pub mod model;
pub mod service;
pub mod store;
