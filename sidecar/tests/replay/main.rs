//! What `replay`, and thus the detector, decides: on recordings that were written for the project, on public recordings of
//! real agents if they are available, and on loops made of pieces of those.
// Clippy allows these in functions with the attribute `test`, but not in the helpers beside them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answer_loops;
mod commands;
mod own_traces;
mod public_traces;
mod random;
mod synthetic_loops;
mod traces;
