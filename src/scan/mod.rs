//! Scanning bytes: sixteen of them at once, and the escapes of JSON strings.
//!
//! This is the lowest layer of the hot path. `decode` and `fingerprint` are built on it; it depends on neither.

pub mod lanes;
pub mod unescape;

/// The JSON cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
