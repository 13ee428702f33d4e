//! Scanning bytes: sixteen of them at once, and the escapes of JSON strings.
//!
//! The lowest layer of the hot path. Decoding and fingerprinting are both built on it, and it depends on neither.

pub mod lanes;
pub mod unescape;

/// The JSON cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
