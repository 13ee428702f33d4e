//! What can be done about a kill.

use super::words::words;

words! {
    /// What can be done.
    pub enum RemedyKind {
        /// Activate the agent as it is.
        Activate = "activate",
        /// Let the stopped conversation go on.
        Resume = "resume",
        /// Activate the agent, and only record its loops from now on.
        Observe = "observe",
        /// Never count the calls of a tool.
        IgnoreTool = "ignore_tool",
        /// Raise the threshold above the score of the kill.
        RaiseThreshold = "raise_threshold",
    }
}
