//! What is said to the sidecar, off the request path: policies arrive by [`sync`], kill reports wait in the [`outbox`],
//! and [`observations`] are sent now and then.

pub mod observations;
pub mod outbox;
pub mod sync;
