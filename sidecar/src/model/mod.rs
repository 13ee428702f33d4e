//! The sidecar's words: agents, events, kills, tokens, alerts.
//!
//! Plain data, no axum, no sqlx. Policy is the filter's own [`AgentPolicy`], so that what is stored and what is synced
//! cannot drift apart. Times are milliseconds since 1970, UTC.

use agent_kill_switch::policy::{DEFAULT_RETRY_AFTER_SECONDS, DEFAULT_THRESHOLD, DEFAULT_WINDOW_SIZE};
use agent_kill_switch::wire::{Action, AgentPolicy, Counting};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod alert;

pub use alert::{AlertRule, Channel, Delivery, DeliveryStatus, NoticeKind};

/// Milliseconds since 1970.
pub type Millis = u64;

/// One agent: its policy, and what the filter need not know.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// What the filter is told.
    pub policy: AgentPolicy,
    /// A name for people; may be empty.
    pub name: String,
    /// The first traffic; none if a person created the agent and it has not called yet.
    pub first_seen_ms: Option<Millis>,
    /// The latest traffic.
    pub last_seen_ms: Option<Millis>,
    /// The revision of the last change. Assigned by the store.
    pub rev: u64,
    /// Created by traffic and never touched by a person.
    pub discovered: bool,
    /// A tombstone: the agent exists no longer.
    pub deleted: bool,
}

impl Agent {
    /// An agent with the default policy: active, kill switch off.
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
        };
        Self {
            policy,
            name: String::new(),
            first_seen_ms: None,
            last_seen_ms: None,
            rev: 0,
            discovered: false,
            deleted: false,
        }
    }

    /// The agent's id.
    pub fn id(&self) -> &str {
        &self.policy.agent_id
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// A loop was detected and the agent deactivated.
    KillSwitch,
    /// A loop was detected and requests are refused for a while.
    Blocked,
    /// A loop was detected and, as the policy asks, nothing done.
    WouldKill,
    /// A kill was reported for a generation that is over. Nothing changed.
    KillStale,
    /// A person activated the agent.
    Activated,
    /// A person deactivated the agent.
    Deactivated,
    /// A person changed the agent's settings.
    PolicyChanged,
    /// A person created the agent.
    Created,
    /// A person deleted the agent.
    Deleted,
}

impl EventType {
    /// Every type, for parsing and for the documentation of the filter parameter.
    pub const ALL: [Self; 9] = [
        Self::KillSwitch,
        Self::Blocked,
        Self::WouldKill,
        Self::KillStale,
        Self::Activated,
        Self::Deactivated,
        Self::PolicyChanged,
        Self::Created,
        Self::Deleted,
    ];

    /// The word used in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill_switch",
            Self::Blocked => "blocked",
            Self::WouldKill => "would_kill",
            Self::KillStale => "kill_stale",
            Self::Activated => "activated",
            Self::Deactivated => "deactivated",
            Self::PolicyChanged => "policy_changed",
            Self::Created => "created",
            Self::Deleted => "deleted",
        }
    }

    /// The type that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event_type| event_type.as_str() == word)
    }

    /// Whether somebody may want to be told: loops, and the recovery after one.
    pub fn is_alerted(self) -> bool {
        matches!(self, Self::KillSwitch | Self::Blocked | Self::WouldKill | Self::Activated)
    }
}

/// An event before the store has numbered it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// When it was recorded.
    pub at_ms: Millis,
    /// What happened.
    pub event_type: EventType,
    /// To which agent.
    pub agent_id: String,
    /// In which generation of it.
    pub generation: u64,
    /// Who did it: `kill_switch`, or the name of the credential used.
    pub actor: String,
    /// Why, in words; may be empty.
    pub reason: String,
    /// What else is known; members differ by type.
    pub detail: Map<String, Value>,
}

/// An event as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Rises with every event.
    pub id: u64,
    /// The rest.
    pub body: NewEvent,
}

/// What became of a kill report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillOutcome {
    /// The agent was deactivated by this report.
    Applied,
    /// The report, or another one for the same generation, was taken before.
    Duplicate,
    /// The generation is over: the agent was activated or deleted since.
    Stale,
    /// Recorded as `would_kill`.
    Observed,
    /// Recorded as `blocked`.
    Blocked,
}

impl KillOutcome {
    /// The word used in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Observed => "observed",
            Self::Blocked => "blocked",
        }
    }
}

/// A kill report that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillRecord {
    /// The reporter's own id of it.
    pub kill_id: String,
    /// The agent.
    pub agent_id: String,
    /// The generation it was about.
    pub generation: u64,
    /// What became of it.
    pub outcome: KillOutcome,
    /// The event that records it; for a duplicate, the first report's event.
    pub event_id: u64,
    /// When it arrived.
    pub received_ms: Millis,
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The filter: sync, kill reports, observations. Nothing else.
    Enforcer,
    /// Reads everything, changes nothing.
    Viewer,
    /// Reads and changes everything.
    Operator,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Enforcer, Self::Viewer, Self::Operator];

    /// The word used in JSON, in the database and in file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforcer => "enforcer",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    /// The scope that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    /// Whether a token of this scope may do what `needed` is needed for. An operator is a viewer too, but no filter.
    pub fn grants(self, needed: Self) -> bool {
        self == needed || (self == Self::Operator && needed == Self::Viewer)
    }
}

/// A bearer token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What to call it when revoking.
    pub token_id: String,
    /// What it is for. Events name it as their actor.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// When it was made.
    pub created_ms: Millis,
    /// When it was revoked.
    pub revoked_ms: Option<Millis>,
}

/// An Envoy as one replica has heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEnvoy {
    /// What it calls itself.
    pub envoy: String,
    /// The revision that it has applied, if any.
    pub applied_rev: Option<u64>,
    /// When it was last heard of.
    pub last_seen_ms: Millis,
}
