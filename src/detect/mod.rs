//! Detection: a call enters its window, the window gives a score, and the score gives a verdict.
//!
//! Everything here is pure: no host, no clock, no JSON. Each stage takes the type of the stage before it and no other.

pub mod answer_loop;
pub mod entry;
pub mod explain;
pub mod findings;
pub mod literal;
pub mod progress;
pub mod score;
pub mod tools;
pub mod verdict;
pub mod window;
pub mod windows;
