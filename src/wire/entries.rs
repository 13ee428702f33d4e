//! The calls and answers that filters tell the sidecar, for loops that are spread over several Envoys.

use serde::{Deserialize, Serialize};

/// `POST /v1/entries`: the calls and answers of guarded agents that one worker saw since its last report. Reports are
/// bounded and may be lost. They contain fingerprints and times, never text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryReport {
    /// The name of the Envoy that reports.
    #[serde(default)]
    pub envoy: String,
    /// Names the worker and its start. The numbers of calls are unique among those of one sender.
    pub sender: String,
    /// The version of the entries.
    pub version: u8,
    /// When the report was sent, by the clock of the Envoy. The entries have times of the same clock, so that the
    /// difference tells how long ago they were made, whatever the clock says.
    pub sent_ms: u64,
    /// The agents that it saw.
    pub agents: Vec<AgentEntries>,
}

/// The calls and answers of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEntries {
    /// The agent.
    pub agent_id: String,
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// [Items](crate::entries::Item) in the order in which the worker saw them, one after the other, in base64.
    pub entries: String,
}
