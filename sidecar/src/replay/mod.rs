//! Recorded runs through the filter's own code: what would have been killed, at which call, and why.
//!
//! [`recording`] tells the three shapes of a line apart and gives back the bytes that were on the wire; [`step`] decodes
//! them as the filter does; [`play`] judges them under given settings; [`sweep`] does so under many. Needs no server and
//! no Envoy. What it leaves out of the filter: who the agent is, policy, sessions and concurrency. Calls are played one
//! after the other, each answered before the next begins.

pub mod input;
pub mod play;
pub mod recording;
pub mod replayer;
pub mod step;
pub mod sweep;
pub mod tally;

pub use play::{Outcome, Settings, play};
pub use recording::{BadLine, Label};
pub use replayer::{Replayer, Run};
