//! Decides what happens to a call with a given score.

use super::score::Score;
use crate::wire::Action;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is forwarded.
    Allow,
    /// It is forwarded, and recorded as one that would have been stopped.
    WouldKill,
    /// It is refused, and so are all calls of the agent for a while.
    Block,
    /// It is refused, and the agent is deactivated.
    Kill,
}

/// Decides on a call. It trips when its score *exceeds* the threshold.
pub fn decide(score: &Score, threshold: f64, action: Action) -> Verdict {
    if !score.exceeds(threshold) {
        return Verdict::Allow;
    }
    match action {
        Action::Deactivate => Verdict::Kill,
        Action::Block => Verdict::Block,
        Action::Observe => Verdict::WouldKill,
    }
}
