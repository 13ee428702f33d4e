//! The data types of the sidecar: agents, events, kills, tokens, alerts.
//!
//! Plain data without axum and sqlx. The policy of an agent is the filter's own [`AgentPolicy`], so what is stored and
//! what is synced cannot differ. Times are milliseconds since 1970, UTC.

use agent_kill_switch::policy::{
    DEFAULT_ESCALATE_AFTER, DEFAULT_IDLE_RESET_SECONDS, DEFAULT_RETRY_AFTER_SECONDS, DEFAULT_SESSION_STOP_SECONDS,
    DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE,
};
use agent_kill_switch::wire::{self, Action, AgentPolicy, AnswerLoop, Counting, ToolRules};
use serde::Serialize;
use serde_json::{Map, Value};

mod actor;
mod alert;
mod call;
mod entries;
mod pause;
mod policy_rule;
mod remedy;
mod session;
mod usage;
mod words;

pub use actor::{actor_name, who};
pub use alert::{AlertRule, Channel, Delivery, DeliveryStatus, NoticeKind};
pub use call::{CallBatch, StoredCall};
pub use entries::FleetMessage;
pub use pause::{Pause, PauseCause};
pub use policy_rule::PolicyRule;
pub use remedy::RemedyKind;
pub use session::{SessionStop, session_name};
pub use usage::{UsageDay, date_of, day_of, grouped};
use words::words;

use crate::clock::serialize_rfc3339;

/// Milliseconds since 1970.
pub type Millis = u64;

/// An agent: its policy, and what the filter need not know. It is serialised as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agent {
    /// What the filter is told. Its stopped conversations are filled in only when it is told.
    #[serde(flatten)]
    pub policy: AgentPolicy,
    /// A name for people. May be empty.
    pub name: String,
    /// When the first traffic was seen. `None` if a person created the agent and it has not sent a request yet.
    #[serde(rename = "first_seen", serialize_with = "serialize_rfc3339")]
    pub first_seen_ms: Option<Millis>,
    /// When the latest traffic was seen.
    #[serde(rename = "last_seen", serialize_with = "serialize_rfc3339")]
    pub last_seen_ms: Option<Millis>,
    /// The policy file that the settings come from, if any.
    pub managed_by: Option<String>,
    /// The pattern of the file's rule that gave the agent its settings. `None` if the file names the agent itself.
    pub managed_rule: Option<String>,
    /// The revision of the last change. Assigned by the store.
    #[serde(skip)]
    pub rev: u64,
    /// Whether it was created by traffic and never changed by a person.
    #[serde(skip)]
    pub discovered: bool,
    /// Whether this is the tombstone of a deleted agent.
    #[serde(skip)]
    pub deleted: bool,
}

impl Agent {
    /// Returns an agent with the default policy: active, kill switch off.
    pub fn new(agent_id: &str, generation: u64) -> Self {
        let policy = AgentPolicy {
            agent_id: agent_id.to_owned(),
            active: true,
            deactivated_by: None,
            generation,
            kill_switch_enabled: false,
            kill_switch_window_size: DEFAULT_WINDOW_SIZE,
            kill_switch_threshold: DEFAULT_THRESHOLD,
            action: Action::default(),
            counting: Counting::default(),
            retry_after_seconds: DEFAULT_RETRY_AFTER_SECONDS,
            idle_reset_seconds: DEFAULT_IDLE_RESET_SECONDS,
            scope: wire::Scope::default(),
            session_stop_seconds: DEFAULT_SESSION_STOP_SECONDS,
            escalate_after: DEFAULT_ESCALATE_AFTER,
            answer_loop: AnswerLoop::default(),
            tools: ToolRules::default(),
            reason: None,
            stopped_sessions: Vec::new(),
        };
        Self {
            policy,
            name: String::new(),
            first_seen_ms: None,
            last_seen_ms: None,
            managed_by: None,
            managed_rule: None,
            rev: 0,
            discovered: false,
            deleted: false,
        }
    }

    /// Returns the id of the agent.
    pub fn id(&self) -> &str {
        &self.policy.agent_id
    }
}

words! {
    /// The type of an event.
    pub enum EventType {
        /// A loop was detected, and the agent was deactivated or the conversation stopped.
        KillSwitch = "kill_switch",
        /// A loop was detected and requests are refused for a while.
        Blocked = "blocked",
        /// A loop was detected and, because the policy says `observe` or the fleet is paused, nothing was done.
        WouldKill = "would_kill",
        /// A model repeated itself within one answer, and the answer was not cut.
        AnswerLoop = "answer_loop",
        /// A kill was reported for a generation that is over. Nothing changed.
        KillStale = "kill_stale",
        /// A person activated the agent, or it was given back after a storm of kills.
        Activated = "activated",
        /// A person deactivated the agent.
        Deactivated = "deactivated",
        /// A person let a stopped conversation go on, or it was given back after a storm of kills.
        SessionResumed = "session_resumed",
        /// A person changed the agent's settings.
        PolicyChanged = "policy_changed",
        /// A person created the agent.
        Created = "created",
        /// A person deleted the agent.
        Deleted = "deleted",
        /// A person or a storm of kills paused the whole fleet. This event and the next are about no single agent.
        Paused = "paused",
        /// The pause ended.
        Resumed = "resumed",
        /// A policy file was applied and changed something. This event is about the whole file, and about no single
        /// agent.
        PoliciesApplied = "policies_applied",
    }
}

/// An event that the store has not given an id yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewEvent {
    /// When it was recorded.
    #[serde(rename = "at", serialize_with = "serialize_rfc3339")]
    pub at_ms: Millis,
    /// Its type.
    pub event_type: EventType,
    /// The agent that it is about. Empty if it is about the whole fleet.
    pub agent_id: String,
    /// The generation of the agent. 0 if the event is about the whole fleet.
    pub generation: u64,
    /// Who caused it: `kill_switch`, or the name of the credential used.
    pub actor: String,
    /// The reason in words. May be empty.
    pub reason: String,
    /// Further members, which differ by type.
    #[serde(flatten)]
    pub detail: Map<String, Value>,
}

/// A recorded event. It is serialised as the API and the dashboard's export show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// A number that rises with every event.
    pub id: u64,
    /// Everything else.
    #[serde(flatten)]
    pub body: NewEvent,
}

words! {
    /// What a kill report led to.
    pub enum KillOutcome {
        /// The report deactivated the agent.
        Applied = "applied",
        /// The report stopped a conversation, and the agent goes on.
        Stopped = "stopped",
        /// The report, or another one for the same generation or the same stop of a conversation, was received before.
        Duplicate = "duplicate",
        /// The generation is over: the agent was activated or deleted since.
        Stale = "stale",
        /// Recorded as `would_kill`.
        Observed = "observed",
        /// Recorded as `blocked`.
        Blocked = "blocked",
    }
}

/// The record of a kill report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillRecord {
    /// The id that the reporter chose.
    pub kill_id: String,
    /// The agent.
    pub agent_id: String,
    /// The generation that the report is about.
    pub generation: u64,
    /// What the report led to.
    pub outcome: KillOutcome,
    /// The event that records it. For a duplicate, the event of the first report.
    pub event_id: u64,
    /// When it arrived.
    pub received_ms: Millis,
    /// When the loop was detected, which may be long before the report arrived.
    pub detected_ms: Millis,
    /// Whether it is about an agent or about one of its conversations.
    pub scope: wire::Scope,
}

words! {
    /// What a token allows.
    pub enum Scope {
        /// For the filter: sync, kill reports and observations, and nothing else.
        Enforcer = "enforcer",
        /// Reading everything.
        Viewer = "viewer",
        /// Reading and changing everything.
        Operator = "operator",
    }
}

impl Scope {
    /// Whether a token of this scope allows what `needed` allows. An operator is also a viewer, but not an enforcer.
    pub fn grants(self, needed: Self) -> bool {
        self == needed || (self == Self::Operator && needed == Self::Viewer)
    }
}

/// A bearer token without its secret. It is serialised as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// The id by which it is revoked.
    pub token_id: String,
    /// What it is for. Events name it as their actor.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// SHA-256 of the secret.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// When it was created.
    #[serde(rename = "created", serialize_with = "serialize_rfc3339")]
    pub created_ms: Millis,
    /// When it was revoked.
    #[serde(rename = "revoked", serialize_with = "serialize_rfc3339")]
    pub revoked_ms: Option<Millis>,
}

/// An Envoy that a replica has heard from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEnvoy {
    /// The name that it gives itself.
    pub envoy: String,
    /// The revision that it has applied, if any.
    pub applied_rev: Option<u64>,
    /// When it was last heard from.
    pub last_seen_ms: Millis,
}
