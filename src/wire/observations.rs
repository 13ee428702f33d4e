//! What filters report to the sidecar about the agents that they see.

use serde::{Deserialize, Serialize};

use super::{ModelUsage, Repetition, Signals};

/// One scored call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreSample {
    /// When the call came, in milliseconds since 1970.
    pub at_ms: u64,
    /// The number of the call in its window, which orders calls of the same millisecond.
    #[serde(default)]
    pub sequence: u32,
    /// The score.
    pub score: f64,
    /// The counts behind the score.
    #[serde(flatten)]
    pub signals: Signals,
}

/// What one worker saw of one agent since its last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentObservation {
    /// The agent, which the sidecar may not know yet.
    pub agent_id: String,
    /// How many calls came.
    #[serde(default)]
    pub requests: u64,
    /// How many calls were refused because the agent is inactive or blocked.
    #[serde(default)]
    pub refused: u64,
    /// When the last call came, in milliseconds since 1970.
    #[serde(default)]
    pub last_seen_ms: u64,
    /// The scores of the latest calls, oldest first.
    #[serde(default)]
    pub scores: Vec<ScoreSample>,
    /// In how many answers the model repeated itself without being stopped.
    #[serde(default)]
    pub answer_loops: u64,
    /// What it repeated in the latest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<Repetition>,
    /// When that was found, in milliseconds since 1970.
    #[serde(default)]
    pub repetition_ms: u64,
    /// The tokens that answers stated, by model, at most [`MAX_MODELS`](super::MAX_MODELS) and one more for all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<ModelUsage>,
}

/// `POST /v1/observations`: what one worker saw since its last report. Reports are bounded and may be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// The name of the Envoy that reports.
    #[serde(default)]
    pub envoy: String,
    /// The agents that it saw.
    pub agents: Vec<AgentObservation>,
}
