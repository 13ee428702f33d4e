//! Alerts: rules, and what was sent under them.

use serde::{Deserialize, Serialize};

use super::{EventType, Millis};

/// How somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A signed POST as Standard Webhooks describes it.
    Webhook,
    /// A POST that Slack, Mattermost and their like understand.
    Slack,
    /// A mail.
    Email,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Self; 3] = [Self::Webhook, Self::Slack, Self::Email];

    /// The word used in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Slack => "slack",
            Self::Email => "email",
        }
    }

    /// The channel that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.as_str() == word)
    }
}

/// Who is told of an agent's loops, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertRule {
    /// What to call it when changing it.
    pub rule_id: String,
    /// A name for people; may be empty.
    pub name: String,
    /// The agent it is about; all of them if none.
    pub agent_id: Option<String>,
    /// How.
    pub channel: Channel,
    /// Where to: a URL, or mail addresses with commas between them. A Slack URL is a secret by itself.
    pub target: String,
    /// What webhooks are signed with.
    pub secret: Option<Vec<u8>>,
    /// After a notice about an agent, further ones of its kind are held back for so long.
    pub cooldown_seconds: u32,
    /// Whether activation after a kill is told too.
    pub recovery: bool,
    /// Whether anything is sent.
    pub enabled: bool,
    /// Why not, where the sidecar itself switched it off.
    pub disabled_reason: String,
    /// When it was made. Earlier events are none of its business.
    pub created_ms: Millis,
}

impl std::fmt::Debug for AlertRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the secret nor a target that may be one belongs into a log.
        f.debug_struct("AlertRule").field("rule_id", &self.rule_id).field("channel", &self.channel).finish()
    }
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// An agent was deactivated.
    KillSwitch,
    /// An agent's requests are refused for a while.
    Blocked,
    /// An agent would have been deactivated.
    WouldKill,
    /// An agent that the kill switch stopped works again.
    Activated,
    /// A person wants to see whether notices arrive.
    Test,
}

impl NoticeKind {
    const ALL: [Self; 5] = [Self::KillSwitch, Self::Blocked, Self::WouldKill, Self::Activated, Self::Test];

    /// The word used in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill_switch",
            Self::Blocked => "blocked",
            Self::WouldKill => "would_kill",
            Self::Activated => "activated",
            Self::Test => "test",
        }
    }

    /// The kind that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The kind of notice that an event leads to.
    pub fn of(event_type: EventType) -> Option<Self> {
        match event_type {
            EventType::KillSwitch => Some(Self::KillSwitch),
            EventType::Blocked => Some(Self::Blocked),
            EventType::WouldKill => Some(Self::WouldKill),
            EventType::Activated => Some(Self::Activated),
            _ => None,
        }
    }
}

/// What became of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// Not yet, and tried again.
    Pending,
    /// The receiver took it.
    Delivered,
    /// Tried for as long as the operator wants, or refused for good.
    GivenUp,
    /// Never tried: the rule's cooldown was not over.
    HeldBack,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Delivered, Self::GivenUp, Self::HeldBack];

    /// The word used in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::GivenUp => "given_up",
            Self::HeldBack => "held_back",
        }
    }

    /// The status that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// One notice to one receiver: work while pending, history afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Rises with every delivery. Assigned by the store.
    pub seq: u64,
    /// What receivers see as `webhook-id`, the same on every try.
    pub delivery_id: String,
    /// The rule it is sent under.
    pub rule_id: String,
    /// How.
    pub channel: Channel,
    /// What it is about.
    pub kind: NoticeKind,
    /// The agent.
    pub agent_id: String,
    /// The event; none for a test.
    pub event_id: Option<u64>,
    /// What is told, as JSON: the same on every try.
    pub payload: String,
    /// What became of it.
    pub status: DeliveryStatus,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was decided to send it.
    pub created_ms: Millis,
    /// When it is tried next.
    pub next_attempt_ms: Millis,
    /// When it is old news.
    pub give_up_ms: Millis,
    /// When it was tried last.
    pub last_attempt_ms: Option<Millis>,
    /// What the receiver answered last: an HTTP status or an SMTP code.
    pub last_code: Option<u32>,
    /// How long the last try took.
    pub last_latency_ms: Option<u64>,
    /// Why the last try failed.
    pub last_error: String,
}
