//! Alert rules, and the notices that are delivered under them.

use agent_kill_switch::wire;

use super::words::words;
use super::{EventType, Millis};

words! {
    /// How a notice is delivered.
    pub enum Channel {
        /// A signed POST request as Standard Webhooks describes it.
        Webhook = "webhook",
        /// A POST request that Slack, Mattermost and compatible services understand.
        Slack = "slack",
        /// An email.
        Email = "email",
    }
}

/// Who is notified of the loops of an agent, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertRule {
    /// The id of the rule.
    pub rule_id: String,
    /// A name for people. May be empty.
    pub name: String,
    /// The agent that the rule is about. `None` means every agent.
    pub agent_id: Option<String>,
    /// How notices are delivered.
    pub channel: Channel,
    /// Where notices are delivered to: a URL, or email addresses separated by commas. The URL of a Slack webhook is a
    /// secret by itself.
    pub target: String,
    /// The secret that webhooks are signed with.
    pub secret: Option<Vec<u8>>,
    /// How long further notices of the same kind about an agent are held back after one was sent.
    pub cooldown_seconds: u32,
    /// Whether the activation after a kill is announced too.
    pub recovery: bool,
    /// Whether anything is sent.
    pub enabled: bool,
    /// Why the sidecar itself disabled the rule. Empty if it did not.
    pub disabled_reason: String,
    /// When the rule was created. It does not apply to earlier events.
    pub created_ms: Millis,
}

impl std::fmt::Debug for AlertRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret must not appear in a log, and the target may be a secret as well.
        f.debug_struct("AlertRule").field("rule_id", &self.rule_id).field("channel", &self.channel).finish()
    }
}

words! {
    /// What a notice is about.
    pub enum NoticeKind {
        /// An agent was deactivated, or a conversation was stopped.
        KillSwitch = "kill_switch",
        /// The requests of an agent or a conversation are refused for a while.
        Blocked = "blocked",
        /// An agent would have been deactivated, or a conversation stopped.
        WouldKill = "would_kill",
        /// A model repeated itself within one answer, and nothing was stopped.
        AnswerLoop = "answer_loop",
        /// An agent that the kill switch deactivated was activated again.
        Activated = "activated",
        /// The whole fleet was paused.
        Paused = "paused",
        /// The pause of the fleet ended.
        Resumed = "resumed",
        /// A person asked for a test notice.
        Test = "test",
    }
}

impl NoticeKind {
    /// Returns the kind of notice that an event leads to, which has the same word as the event.
    pub fn of(event_type: EventType) -> Option<Self> {
        Self::parse(event_type.as_str())
    }
}

words! {
    /// The state of a delivery.
    pub enum DeliveryStatus {
        /// It has not arrived yet and will be attempted again.
        Pending = "pending",
        /// The receiver accepted it.
        Delivered = "delivered",
        /// It was attempted for as long as the operator wants, or refused for good.
        GivenUp = "given_up",
        /// It was never attempted, because the cooldown of the rule was not over.
        HeldBack = "held_back",
    }
}

/// One notice to one receiver: work while it is pending, history afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// A number that rises with every delivery. Assigned by the store.
    pub seq: u64,
    /// What receivers see as `webhook-id`, the same for every attempt.
    pub delivery_id: String,
    /// The rule that it is sent under.
    pub rule_id: String,
    /// How it is delivered.
    pub channel: Channel,
    /// What it is about.
    pub kind: NoticeKind,
    /// Whether it is about the whole agent or one conversation. Each has its own cooldown.
    pub scope: wire::Scope,
    /// The agent that it is about. Empty if it is about the whole fleet.
    pub agent_id: String,
    /// The event that it is about. `None` for a test.
    pub event_id: Option<u64>,
    /// The content as JSON, the same for every attempt.
    pub payload: String,
    /// Its state.
    pub status: DeliveryStatus,
    /// How many times it was attempted.
    pub attempts: u32,
    /// When it was created.
    pub created_ms: Millis,
    /// When it is attempted next.
    pub next_attempt_ms: Millis,
    /// When it is no longer attempted.
    pub give_up_ms: Millis,
    /// When it was attempted last.
    pub last_attempt_ms: Option<Millis>,
    /// The last answer of the receiver: an HTTP status or an SMTP code.
    pub last_code: Option<u32>,
    /// How long the last attempt took.
    pub last_latency_ms: Option<u64>,
    /// Why the last attempt failed.
    pub last_error: String,
}
