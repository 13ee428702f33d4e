//! Detection: text to fingerprint, fingerprints to window, window to score, score to verdict.
//!
//! Pure: no host, no clock, no JSON. Each stage takes the type of the one before it and no other.

pub mod explain;
pub mod literal;
pub mod progress;
pub mod score;
pub mod verdict;
pub mod window;

mod entry;
