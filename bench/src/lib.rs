//! What the benchmarks measure: the pipeline, a naive one beside it, and the floor below both.
//!
//! - [`text`], [`body`]: what is sent, the same in every run.
//! - [`pipeline`]: one call through decode, normalise, SimHash, window and score.
//! - [`naive`]: the same result by the obvious means. Also the oracle of the fast one.
//! - [`floor`]: what no pipeline can be faster than that is given a copy of the body.
//! - [`cell`]: one of the three on one body, so often: what native program and module have in common.
//! - [`stats`]: medians, percentiles, ratios.
//!
//! The programs that measure are in `src/bin/`; `pipeline.mjs` drives the module in Node. No clock in here.

// Tooling: where it cannot go on, a panic with a good message is the result that is wanted.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

pub mod body;
pub mod cell;
#[cfg(target_arch = "wasm32")]
mod exports;
pub mod floor;
pub mod naive;
pub mod pipeline;
pub mod stats;
pub mod text;
