//! Wire formats: bytes to the words of [`turn`](crate::turn). No scoring, no thresholds.

pub mod answer;
pub mod conversation;
pub mod envelope;
pub mod format;
pub mod frames;
pub mod json;
pub mod messages;
pub mod request;
pub mod text;
pub mod tools;
