//! Wire formats: bytes to the words of [`turn`](crate::turn). No scoring, no thresholds.

pub use hot::{frames, json, messages, unescape};

pub mod answer;
pub mod conversation;
pub mod envelope;
pub mod format;
pub mod policies;
pub mod request;
pub mod text;
pub mod tools;
