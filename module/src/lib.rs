//! The filter as a WebAssembly module: what Envoy calls is exported by the crate that this one links.
//!
//! A crate of its own, since link-time optimisation works at the level of the crate that is linked last, and that must be
//! the highest for the [`hot`](agent_kill_switch::detect::fingerprint) parts to be fast. The filter itself is compiled for
//! size: see `[profile.wasm]` in the workspace's Cargo.toml.

pub use agent_kill_switch::host;
