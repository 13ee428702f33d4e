//! What `replay` decides, and through it the detector: on recordings written for the project, on public recordings of
//! real agents where they are at hand, and on loops made of pieces of those.
// Clippy knows tests by their attribute; the helpers between them are tests all the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod commands;
mod own_traces;
mod public_traces;
mod random;
mod synthetic_loops;
mod traces;
