//! What filter and sidecar say to each other: policy sync, kill reports, observations.
//!
//! Serde types only, no behaviour. Fields are only ever added, each with a default, and unknown ones are ignored, so
//! that an Envoy and a sidecar of neighbouring versions understand each other. The JSON names are also the names of the
//! management API, the events and the documentation: one word for one thing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A word that is none of the values of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// The words that are allowed, as they are listed in a message.
    pub allowed: &'static str,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {}", self.allowed)
    }
}

impl std::error::Error for UnknownWord {}

/// Who switched an agent off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeactivatedBy {
    /// A loop was detected.
    KillSwitch,
    /// A person did it.
    Manual,
}

impl DeactivatedBy {
    /// The word that stands for this value in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill_switch",
            Self::Manual => "manual",
        }
    }
}

impl FromStr for DeactivatedBy {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let all = [Self::KillSwitch, Self::Manual];
        all.into_iter().find(|by| by.as_str() == word).ok_or(UnknownWord { allowed: "kill_switch or manual" })
    }
}

/// What happens when an agent's score exceeds its threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The agent is inactive until a person activates it.
    #[default]
    Deactivate,
    /// Requests are refused with 429 for `retry_after_seconds`, then the window starts afresh.
    Block,
    /// Nothing is refused; what would have happened is recorded.
    Observe,
}

impl Action {
    /// The word that stands for this value in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deactivate => "deactivate",
            Self::Block => "block",
            Self::Observe => "observe",
        }
    }
}

impl FromStr for Action {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let all = [Self::Deactivate, Self::Block, Self::Observe];
        let unknown = UnknownWord { allowed: "deactivate, block or observe" };
        all.into_iter().find(|action| action.as_str() == word).ok_or(unknown)
    }
}

/// How repeats are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// The specification to the letter.
    Literal,
    /// A repeat counts only if it got the agent nowhere.
    #[default]
    Progress,
}

impl Counting {
    /// The way of counting that `as u8` gives this code to.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Literal, Self::Progress].into_iter().find(|counting| *counting as u8 == code)
    }

    /// The word that stands for this value in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::Progress => "progress",
        }
    }
}

impl FromStr for Counting {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let all = [Self::Progress, Self::Literal];
        all.into_iter().find(|counting| counting.as_str() == word).ok_or(UnknownWord { allowed: "progress or literal" })
    }
}

/// One agent as the filter must treat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPolicy {
    /// The agent's id, as its requests carry it.
    pub agent_id: String,
    /// Inactive agents get the inactive reply.
    pub active: bool,
    /// Why it is inactive; null while it is active.
    #[serde(default)]
    pub deactivated_by: Option<DeactivatedBy>,
    /// Rises with every activation. State of another generation is void.
    #[serde(default)]
    pub generation: u64,
    /// Off: the body is not looked at.
    #[serde(default)]
    pub kill_switch_enabled: bool,
    /// How many calls are looked at, the current one included.
    #[serde(default = "default_window_size")]
    pub kill_switch_window_size: u32,
    /// The score that must be exceeded.
    #[serde(default = "default_threshold")]
    pub kill_switch_threshold: f64,
    /// What a detected loop leads to.
    #[serde(default)]
    pub action: Action,
    /// How repeats are counted.
    #[serde(default)]
    pub counting: Counting,
    /// With `action: block`, how long requests are refused.
    #[serde(default = "default_retry_after_seconds")]
    pub retry_after_seconds: u32,
}

fn default_window_size() -> u32 {
    crate::policy::DEFAULT_WINDOW_SIZE
}

fn default_threshold() -> f64 {
    crate::policy::DEFAULT_THRESHOLD
}

fn default_retry_after_seconds() -> u32 {
    crate::policy::DEFAULT_RETRY_AFTER_SECONDS
}

/// The answer to `GET /v1/sync?epoch=E&since=R&wait=S&envoy=NAME`.
///
/// `epoch` names one life of the sidecar's database; a cursor of another epoch is worthless and gets a `full` answer.
/// With `full`, agents that the answer (all its pages together) does not name do not exist. With `more`, the rest
/// follows at `since = rev` at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncAnswer {
    /// Which life of the database the revisions belong to.
    pub epoch: String,
    /// The revision that the receiver has after applying this answer.
    pub rev: u64,
    /// Whether this is, or continues, the whole list rather than a difference.
    #[serde(default)]
    pub full: bool,
    /// Agents that are new or have changed.
    #[serde(default)]
    pub agents: Vec<AgentPolicy>,
    /// Ids that exist no longer.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Whether another page follows at once.
    #[serde(default)]
    pub more: bool,
}

/// The three counts whose weighted sum is the score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    /// Past calls whose fresh input is similar to the current one's.
    pub similar_prompts: u32,
    /// Past answers similar to the most recent one.
    pub similar_responses: u32,
    /// Past calls with the current call's tool signature.
    pub repeated_tool_calls: u32,
}

/// One past call that the current one repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// How many calls ago: 1 is the call before.
    pub calls_ago: u32,
    /// How long ago.
    pub age_ms: u64,
    /// Bits between the two inputs; absent where they are not similar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_distance: Option<u32>,
    /// Bits between the two answers; absent where they are not similar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_distance: Option<u32>,
    /// Whether the tool signature is the same.
    #[serde(default)]
    pub same_tool_call: bool,
    /// The fingerprint of that call's input, in hexadecimal.
    pub prompt_hash: String,
}

/// `POST /v1/kills`: a loop was detected.
///
/// Taken once per `kill_id`, and once per agent and generation: several Envoys may find the same loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KillReport {
    /// Chosen by the reporter, the same on every retry.
    pub kill_id: String,
    /// The agent that loops.
    pub agent_id: String,
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// What the filter did about it.
    pub action: Action,
    /// Which Envoy reports.
    #[serde(default)]
    pub envoy: String,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: u64,
    /// The score reached.
    pub score: f64,
    /// The threshold exceeded.
    pub threshold: f64,
    /// The window looked at.
    pub window_size: u32,
    /// How repeats were counted.
    #[serde(default)]
    pub counting: Counting,
    /// The counts behind the score.
    #[serde(flatten)]
    pub signals: Signals,
    /// Why, in words.
    #[serde(default)]
    pub reason: String,
    /// Names of the tools that the repeated call used.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The past calls that matched, the latest first.
    #[serde(default)]
    pub matches: Vec<Match>,
    /// The beginning of the repeated input, only where the operator asked for `evidence: excerpt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
}

/// One scored call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreSample {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The score.
    pub score: f64,
    /// The counts behind it.
    #[serde(flatten)]
    pub signals: Signals,
}

/// What one Envoy saw of one agent since its last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentObservation {
    /// The agent, known to the sidecar or not.
    pub agent_id: String,
    /// Calls seen.
    #[serde(default)]
    pub requests: u64,
    /// Calls refused because the agent is inactive or blocked.
    #[serde(default)]
    pub refused: u64,
    /// The last call, in milliseconds since 1970.
    #[serde(default)]
    pub last_seen_ms: u64,
    /// Scores, oldest first; the reporter keeps only so many.
    #[serde(default)]
    pub scores: Vec<ScoreSample>,
}

/// `POST /v1/observations`: batched, bounded, lossy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// Which Envoy reports.
    #[serde(default)]
    pub envoy: String,
    /// What it saw.
    pub agents: Vec<AgentObservation>,
}
