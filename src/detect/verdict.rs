//! Score and policy to a verdict.

use super::score::Score;
use crate::wire::Action;

/// What is to be done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forward it.
    Allow,
    /// Forward it, and record that it would have been stopped.
    Observe,
    /// Refuse it and what follows for a while.
    Block,
    /// Deactivate the agent.
    Kill,
}

/// A call trips when its score *exceeds* the threshold.
pub fn decide(score: &Score, threshold: f64, action: Action) -> Verdict {
    if score.value <= threshold {
        return Verdict::Allow;
    }
    match action {
        Action::Deactivate => Verdict::Kill,
        Action::Block => Verdict::Block,
        Action::Observe => Verdict::Observe,
    }
}
