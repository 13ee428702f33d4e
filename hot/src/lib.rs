//! What every byte of a body passes through: JSON as slices, the messages in it, and text to a fingerprint.
//!
//! A crate of its own for one reason: it is compiled for speed, while the rest of the module, which sees a request once
//! and a configuration once in a while, is compiled for size (`[profile.wasm]` in the workspace's Cargo.toml). Nothing
//! here is generic over what the other crate passes in where it matters, since generic code is compiled where it is used.

pub mod fingerprint;
pub mod frames;
pub mod json;
pub mod messages;
pub mod normalise;
pub mod patterns;
pub mod simhash;
mod sixteen;
mod stamps;
pub mod unescape;
mod votes;
