//! Plays recorded runs through the filter's own code: which would have been killed, at which call, and why.
//!
//! [`input`] reads lines from files; [`recording`] turns a line into the requests and responses that were on the wire;
//! [`detector`] decodes them and scores them under given settings; [`run`] puts the calls of an agent together; [`tally`] and
//! [`sweep`] count the outcomes, under one setting or many. None of this needs a server or Envoy.
//!
//! Only [`detector`] uses the filter's crate. Parts of the filter are not played: finding the agent's id, policies,
//! sessions and concurrency. Calls are played one after the other, each answered before the next begins.

pub mod detector;
pub mod input;
pub mod recording;
pub mod run;
pub mod sweep;
pub mod tally;

pub use detector::{Outcome, Settings, play};
pub use recording::{BadLine, Label};
pub use run::{Run, RunReader};
