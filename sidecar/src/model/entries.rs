//! What replicas tell each other about the calls of agents.

use agent_kill_switch::wire::EntryReport;
use serde::{Deserialize, Serialize};

use super::Millis;

/// A message from one replica to all replicas, itself included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FleetMessage {
    /// An Envoy has reported calls and answers.
    Entries {
        /// The report.
        report: EntryReport,
        /// How long the report has waited at the replica, in milliseconds.
        waited_ms: Millis,
    },
    /// An Envoy has stopped an agent or a conversation by itself, so what is known of its calls is evidence of nothing more.
    Stopped {
        /// The agent.
        agent_id: String,
        /// The key of the conversation, unless the whole agent was stopped.
        conversation: Option<u64>,
    },
}
