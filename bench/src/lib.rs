//! What the benchmarks measure: the pipeline, a naive one, and copying the body.
//!
//! - [`text`], [`body`]: generated requests, the same in every run.
//! - [`answer`]: an answer of a model, read as the filter reads it.
//! - [`pipeline`]: one call through decode, normalise, SimHash, window and score.
//! - [`naive`]: the same result by simple means. It is also the oracle of the fast pipeline.
//! - [`floor`]: copies the body, which is a lower bound for every pipeline that is given a copy.
//! - [`cell`]: runs one of the three on one body, for the native program and the module.
//! - [`stats`]: medians, percentiles, ratios.
//!
//! The programs that measure are in `src/bin/`, and `pipeline.mjs` runs the module in Node. This library uses no clock.

// Tooling: a program that cannot continue panics with a good message.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]
#![allow(missing_docs)] // internal: items with a clear name need no documentation

pub mod answer;
pub mod body;
pub mod cell;
#[cfg(target_arch = "wasm32")]
mod exports;
pub mod floor;
pub mod naive;
pub mod pipeline;
pub mod stats;
pub mod text;
