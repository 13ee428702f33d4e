//! The types that the filter and the sidecar exchange: policies, kill reports and observations.
//!
//! Fields are only ever added, each with a default, and unknown fields are ignored, so that an Envoy and a sidecar of
//! neighbouring versions understand each other. The JSON names are also used in the management API, in events and in the
//! documentation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

mod entries;
mod observations;
mod repetition;
mod tools;
mod usage;

pub use entries::{AgentEntries, EntryReport};
pub use observations::{AgentObservation, Observations, ScoreSample};
pub use repetition::Repetition;
pub use tools::{IGNORE, ToolRule, ToolRules};
pub use usage::{MAX_MODELS, ModelUsage, Usage, add_usage};

/// A word is not one of the values of an enum.
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

/// Lets serde read enums as texts. The code that it derives for an enum itself takes a kilobyte of the module each.
macro_rules! read_from_text {
    ($($name:ident),*) => {
        $(impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(word: String) -> Result<Self, String> {
                word.parse().map_err(|unknown: UnknownWord| [&word, " must be ", unknown.allowed].concat())
            }
        })*
    };
}

read_from_text!(DeactivatedBy, Action, Counting, Scope, AnswerLoop);

/// Who deactivated an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum DeactivatedBy {
    /// The kill switch did, because it detected a loop.
    KillSwitch,
    /// A person did.
    Manual,
}

impl DeactivatedBy {
    /// Returns the word for this value in JSON and in the database.
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
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Action {
    /// The agent is inactive until a person activates it.
    #[default]
    Deactivate,
    /// Requests are refused with 429 for `retry_after_seconds`. Then a fresh window starts.
    Block,
    /// Nothing is refused. What would have happened is recorded.
    Observe,
}

impl Action {
    /// Returns the word for this value in JSON and in the database.
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
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Counting {
    /// Repeats are counted to the letter of the specification.
    Literal,
    /// A repeat counts only if it got the agent nowhere.
    #[default]
    Progress,
}

impl Counting {
    /// Returns the word for this value in JSON and in the database.
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

/// What a detected loop stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Scope {
    /// The whole agent.
    #[default]
    Agent,
    /// Only the conversation that loops. A loop of calls that belong to no conversation stops the agent.
    Session,
}

impl Scope {
    /// Returns the word for this value in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Session => "session",
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let all = [Self::Agent, Self::Session];
        all.into_iter().find(|scope| scope.as_str() == word).ok_or(UnknownWord { allowed: "agent or session" })
    }
}

/// What happens when the model repeats itself word for word within one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum AnswerLoop {
    /// Answers are not looked at for it.
    Off,
    /// It is recorded.
    #[default]
    Observe,
    /// The stream is reset, and the policy's action follows.
    Cut,
}

impl AnswerLoop {
    /// Returns the word for this value in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Observe => "observe",
            Self::Cut => "cut",
        }
    }
}

impl FromStr for AnswerLoop {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let all = [Self::Off, Self::Observe, Self::Cut];
        all.into_iter().find(|mode| mode.as_str() == word).ok_or(UnknownWord { allowed: "off, observe or cut" })
    }
}

/// The policy of one agent, as the filter enforces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPolicy {
    /// The agent's id, as its requests carry it.
    pub agent_id: String,
    /// Whether the agent may call. Calls of an inactive agent are refused.
    pub active: bool,
    /// Who deactivated the agent, or null while it is active.
    #[serde(default)]
    pub deactivated_by: Option<DeactivatedBy>,
    /// Increases with every activation. Windows and kills of another generation do not count.
    #[serde(default)]
    pub generation: u64,
    /// Whether the kill switch is on. If it is off, bodies are not read.
    #[serde(default)]
    pub kill_switch_enabled: bool,
    /// How many calls are looked at, the current one included.
    #[serde(default = "default_window_size")]
    pub kill_switch_window_size: u32,
    /// The score that must be exceeded.
    #[serde(default = "default_threshold")]
    pub kill_switch_threshold: f64,
    /// What happens when a loop is detected.
    #[serde(default)]
    pub action: Action,
    /// How repeats are counted.
    #[serde(default)]
    pub counting: Counting,
    /// How long `action: block` refuses requests.
    #[serde(default = "default_retry_after_seconds")]
    pub retry_after_seconds: u32,
    /// After how many seconds without a call a run is over, so that the next call begins a new one. 0 means never.
    #[serde(default = "default_idle_reset_seconds")]
    pub idle_reset_seconds: u32,
    /// What a detected loop stops.
    #[serde(default)]
    pub scope: Scope,
    /// How long a stopped conversation is refused.
    #[serde(default = "default_session_stop_seconds")]
    pub session_stop_seconds: u32,
    /// How many conversations must be stopped within an hour for the agent itself to be deactivated. 0 means that it
    /// never is. The sidecar counts; the filter does not use it.
    #[serde(default = "default_escalate_after")]
    pub escalate_after: u32,
    /// What happens when the model repeats itself word for word within one answer.
    #[serde(default)]
    pub answer_loop: AnswerLoop,
    /// The tools whose calls are counted differently, at most [`MAX_TOOLS`](crate::policy::MAX_TOOLS).
    #[serde(default)]
    pub tools: ToolRules,
    /// Why the kill switch deactivated the agent, in the words of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The conversations that were stopped lately, at most [`MAX_STOPPED_SESSIONS`](crate::policy::MAX_STOPPED_SESSIONS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped_sessions: Vec<StoppedSession>,
}

/// The key of a stop that concerns all calls of an agent: the sidecar has blocked it. No conversation has this key.
pub const WHOLE_AGENT: &str = "0000000000000000";

/// A conversation that was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedSession {
    /// Identifies the conversation: the hash of its id or of its opening, as 16 hexadecimal digits.
    pub key: String,
    /// Until when its calls are refused, in milliseconds since 1970. 0 if a person let it go on.
    pub until_ms: u64,
    /// How long its calls are still refused, in milliseconds. The receiver computes the end with its own clock. `None`, and
    /// then `until_ms` counts, if the sender is of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_for_ms: Option<u64>,
    /// How often a person let the conversation go on. A stop that an Envoy made under a smaller number is over.
    #[serde(default)]
    pub releases: u32,
    /// What the filter did: `deactivate` refuses with 403, `block` with 429.
    #[serde(default)]
    pub action: Action,
    /// What was repeated, in the words of the event.
    #[serde(default)]
    pub reason: String,
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

fn default_idle_reset_seconds() -> u32 {
    crate::policy::DEFAULT_IDLE_RESET_SECONDS
}

fn default_session_stop_seconds() -> u32 {
    crate::policy::DEFAULT_SESSION_STOP_SECONDS
}

fn default_escalate_after() -> u32 {
    crate::policy::DEFAULT_ESCALATE_AFTER
}

/// The answer to `GET /v1/sync?epoch=E&since=R&wait=S&envoy=NAME`.
///
/// `epoch` names one life of the sidecar's database. A cursor of another epoch is invalid and gets a `full` answer. With
/// `full`, agents that none of the answer's pages name do not exist. With `more`, the next page is available at once at
/// `since = rev`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncAnswer {
    /// The life of the database that the revisions belong to.
    pub epoch: String,
    /// The revision that the receiver has after applying this answer.
    pub rev: u64,
    /// Whether this is a page of the whole list, rather than of the changes.
    #[serde(default)]
    pub full: bool,
    /// The agents that are new or have changed.
    #[serde(default)]
    pub agents: Vec<AgentPolicy>,
    /// The ids of the agents that were deleted.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Whether another page is available at once.
    #[serde(default)]
    pub more: bool,
    /// How long the whole fleet is still paused, in milliseconds. 0 if it is not.
    #[serde(default)]
    pub paused_for_ms: u64,
}

/// What was counted for a call. The weighted sum of the first three is the score. The others are compared with the threshold
/// on their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    /// How many past calls have a fresh input similar to the current one's.
    pub similar_prompts: u32,
    /// How many past answers are similar to the most recent one.
    pub similar_responses: u32,
    /// How many past calls have the current call's tool signature.
    pub repeated_tool_calls: u32,
    /// How often in a row the current result, which says that a tool failed, has come, whatever the calls were. 0 if that is
    /// less than the score.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures_in_a_row: u32,
    /// How many of the last 20 calls repeat the tool call and the result of an earlier one of them. 0 if that is not more than
    /// the score.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated_steps: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A past call that the current one repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// How many calls ago it was. The call before the current one has 1.
    pub calls_ago: u32,
    /// How long ago it was.
    pub age_ms: u64,
    /// The distance of the two inputs in bits, if they are similar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_distance: Option<u32>,
    /// The distance of the two answers in bits, if they are similar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_distance: Option<u32>,
    /// Whether the tool signatures are the same.
    #[serde(default)]
    pub same_tool_call: bool,
    /// The fingerprint of that call's input, in hexadecimal.
    pub prompt_hash: String,
}

/// `POST /v1/kills`: a loop was detected.
///
/// Accepted once per `kill_id`, and once per agent and generation, because several Envoys may find the same loop. A report
/// with the scope `session` is accepted once per agent, generation, conversation and number of its releases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KillReport {
    /// Chosen by the Envoy that reports, and the same on every retry.
    pub kill_id: String,
    /// The agent that loops.
    pub agent_id: String,
    /// The generation of the policy that was in force.
    pub generation: u64,
    /// What the filter did.
    pub action: Action,
    /// Whether nothing was stopped only because the fleet was paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What the filter stopped.
    #[serde(default)]
    pub scope: Scope,
    /// The conversation that loops, unless the calls belong to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<ReportedSession>,
    /// The name of the Envoy that reports.
    #[serde(default)]
    pub envoy: String,
    /// When the loop was detected, in milliseconds since 1970.
    pub at_ms: u64,
    /// The score reached.
    pub score: f64,
    /// The threshold exceeded.
    pub threshold: f64,
    /// The size of the window.
    pub window_size: u32,
    /// How repeats were counted.
    #[serde(default)]
    pub counting: Counting,
    /// The counts behind the score.
    #[serde(flatten)]
    pub signals: Signals,
    /// The explanation in words.
    #[serde(default)]
    pub reason: String,
    /// The names of the tools that the repeated call used.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The past calls that the call repeated, the latest first.
    #[serde(default)]
    pub matches: Vec<Match>,
    /// How many calls the loop took, as far as the window shows it: this call and the past calls that it repeats, or the
    /// calls of a row of failures, or those in which a cycle was found. 0 if the loop is within one answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub loop_calls: u32,
    /// The tokens that the provider stated in the answers to these calls. This call has no answer yet, and no tokens.
    /// `None` if none of the answers stated any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_usage: Option<Usage>,
    /// The beginning of the repeated input, if the operator configured `evidence: excerpt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// What the model repeated within one answer, if that is the loop. The score then says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<Repetition>,
    /// How long ago the loop was detected when the report was sent, in milliseconds of a clock that nobody sets. The receiver
    /// computes the time with its own clock. `None`, and then `at_ms` counts, if the sender is of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
}

/// The conversation in which a loop was detected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedSession {
    /// Identifies the conversation, see [`StoppedSession::key`].
    pub key: String,
    /// The id that the client sent, if it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How often a person had let the conversation go on, as far as the Envoy knew.
    #[serde(default)]
    pub releases: u32,
}
