//! Detection: text to fingerprint, fingerprints to window, window to score, score to verdict.
//!
//! Pure: no host, no clock, no JSON. Each stage takes the type of the one before it and no other.

pub mod display;
pub mod explain;
pub mod fingerprint;
pub mod literal;
pub mod normalise;
pub mod patterns;
pub mod progress;
pub mod score;
pub mod simhash;
pub mod verdict;
pub mod votes;
pub mod window;
