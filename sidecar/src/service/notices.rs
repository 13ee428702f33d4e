//! From events to deliveries: which rules an event concerns, and how each attempt at a delivery ended.
//!
//! An event leaves the outbox in the same transaction that adds its deliveries, so that a crash neither loses nor
//! duplicates a notice. The content of a notice is fixed at that point: every attempt sends the same payload under the
//! same id. Matching calls and excerpts are left out, because they may quote prompts and a notice leaves the system.

use std::time::Duration;

use agent_kill_switch::wire::{DeactivatedBy, Scope};
use serde_json::{Map, Value, json};

use super::tokens::random_hex;
use super::{Result, Service, millis};
use crate::clock::{CLOCK_TOLERANCE_MS, rfc3339};
use crate::model::{AlertRule, Delivery, DeliveryStatus, Event, EventType, Millis, NoticeKind};
use crate::store::Tx;

/// The number of events that one transaction takes from the outbox.
const BATCH: u32 = 100;
/// How long an attempt is reserved for the replica that makes it, which is longer than any attempt takes. If that
/// replica ends during the attempt, the others take over after this time.
const LEASE: Duration = Duration::from_secs(120);
/// The members of an event's detail that a notice contains.
const DETAIL_MEMBERS: [&str; 29] = [
    "kill_id",
    "scope",
    "session",
    "session_key",
    "until",
    "score",
    "threshold",
    "window_size",
    "counting",
    "similar_prompts",
    "similar_responses",
    "repeated_tool_calls",
    "failures_in_a_row",
    "repeated_steps",
    "loop_calls",
    "loop_usage",
    "tools",
    "period",
    "rounds",
    "words",
    "answers",
    "envoy",
    "detected_at",
    "by",
    "paused",
    "cause",
    "kills",
    "agents_given_back",
    "sessions_given_back",
];

/// How an attempt at a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// How long it took.
    pub latency_ms: u64,
    /// The code that the receiver answered with, if it answered.
    pub code: Option<u32>,
    /// What follows.
    pub next: Next,
}

/// What follows from an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, because the notice has arrived.
    Done,
    /// Another attempt, unless that would be too late.
    Retry {
        /// How long to wait before it.
        after_ms: Millis,
        /// Why this attempt failed.
        error: String,
    },
    /// The receiver does not exist any more, so the rule is disabled.
    Gone,
}

impl Service {
    /// Turns the events in the outbox into deliveries. Returns the number of events.
    pub async fn route_alerts(&self) -> Result<usize> {
        if self.store.pending_alerts().await?.is_empty() {
            return Ok(0);
        }
        let mut tx = self.store.begin().await?;
        let events = tx.outbox(BATCH).await?;
        if events.is_empty() {
            // Another replica was faster.
            return Ok(0);
        }
        let rules = tx.alert_rules().await?;
        let now_ms = self.now();
        for event in &events {
            for rule in rules.iter().filter(|rule| concerns(rule, event, now_ms)) {
                if let Some(delivery) = self.notice(&mut tx, rule, event).await? {
                    tx.add_delivery(&delivery).await?;
                }
            }
            tx.dequeue_alert(event.id).await?;
        }
        tx.commit().await?;
        self.beat();
        Ok(events.len())
    }

    /// Returns the delivery that an event leads to under a rule, if any.
    async fn notice(&self, tx: &mut Tx, rule: &AlertRule, event: &Event) -> Result<Option<Delivery>> {
        const LOOPS: [NoticeKind; 3] = [NoticeKind::KillSwitch, NoticeKind::Blocked, NoticeKind::WouldKill];
        let Some(kind) = NoticeKind::of(event.body.event_type) else { return Ok(None) };
        if !rule.channel.announces(kind) {
            return Ok(None);
        }
        let agent_id = event.body.agent_id.as_str();
        let told = |last: Option<Delivery>| last.is_some_and(|last| last.status != DeliveryStatus::HeldBack);
        let name = match tx.agent(agent_id).await {
            Err(error) if error.is_permanent() => String::new(),
            agent => agent?.map(|agent| agent.name).unwrap_or_default(),
        };
        let mut delivery = self.delivery(rule, kind, (agent_id, &name), Some(event))?;
        if kind == NoticeKind::Activated {
            // Only receivers that were notified of the loop are notified of the recovery.
            let last = tx.last_delivery(&rule.rule_id, agent_id, &LOOPS).await?;
            return Ok((rule.recovery && told(last)).then_some(delivery));
        }
        if kind == NoticeKind::Resumed {
            let last = tx.last_delivery(&rule.rule_id, agent_id, &[NoticeKind::Paused]).await?;
            return Ok((rule.recovery && told(last)).then_some(delivery));
        }
        if kind == NoticeKind::Paused {
            // Never held back: whoever relies on the kill switch must know that it stops nothing.
            return Ok(Some(delivery));
        }
        // Each kind and scope has its own cooldown, so that neither a dry run nor the stop of a conversation ever holds
        // back the notice that an agent was deactivated.
        let last = tx.last_sent(&delivery).await?;
        let cooldown_ms = Millis::from(rule.cooldown_seconds) * 1_000;
        // The last one may seem to lie ahead, if the clock was set back since.
        if rule.channel.has_cooldown() && last.is_some_and(|last_ms| self.now().abs_diff(last_ms) < cooldown_ms) {
            delivery.status = DeliveryStatus::HeldBack;
            delivery.last_error = format!("within the cooldown of {} s", rule.cooldown_seconds);
        }
        Ok(Some(delivery))
    }

    fn delivery(
        &self,
        rule: &AlertRule,
        kind: NoticeKind,
        (agent_id, name): (&str, &str),
        event: Option<&Event>,
    ) -> Result<Delivery> {
        let now_ms = self.now();
        let data = match event {
            Some(event) => event_data(event, name),
            None => json!({"agent_id": agent_id, "reason": "a test: nothing has happened to any agent"}),
        };
        let at_ms = event.map_or(now_ms, |event| event.body.at_ms);
        let scope = event.map_or(Scope::Agent, scope);
        let topic = match kind {
            NoticeKind::Test => "alert",
            NoticeKind::Paused | NoticeKind::Resumed => "fleet",
            _ => scope.as_str(),
        };
        let payload_type = format!("{topic}.{}", kind.as_str());
        let payload = json!({"type": payload_type, "timestamp": rfc3339(at_ms), "data": data});
        Ok(Delivery {
            seq: 0,
            delivery_id: format!("msg_{}", random_hex::<16>()?),
            rule_id: rule.rule_id.clone(),
            channel: rule.channel,
            kind,
            scope,
            agent_id: agent_id.to_owned(),
            event_id: event.map(|event| event.id),
            payload: payload.to_string(),
            status: DeliveryStatus::Pending,
            attempts: 0,
            created_ms: now_ms,
            next_attempt_ms: now_ms,
            give_up_ms: now_ms.saturating_add(millis(self.limits.alert_give_up_after)),
            last_attempt_ms: None,
            last_code: None,
            last_latency_ms: None,
            last_error: String::new(),
        })
    }

    /// Adds and returns a test notice. It is attempted only once, because the person who asked for it sees the outcome.
    pub(crate) async fn test_delivery(&self, rule: &AlertRule) -> Result<Delivery> {
        let agent_id = rule.agent_id.as_deref().unwrap_or_default();
        let mut delivery = self.delivery(rule, NoticeKind::Test, (agent_id, ""), None)?;
        delivery.give_up_ms = delivery.created_ms;
        // Due only after the caller has made the one attempt.
        delivery.next_attempt_ms = delivery.created_ms.saturating_add(60_000);
        let mut tx = self.store.begin().await?;
        tx.add_delivery(&delivery).await?;
        tx.commit().await?;
        Ok(delivery)
    }

    /// Returns the deliveries whose next attempt is due, at most `per_rule` of each rule.
    pub(crate) async fn due_deliveries(&self, per_rule: u32) -> Result<Vec<Delivery>> {
        Ok(self.store.due_deliveries(self.now(), per_rule).await?)
    }

    /// Reserves the next attempt at a delivery for this replica. Returns false if another replica has it.
    pub(crate) async fn claim_delivery(&self, delivery: &Delivery) -> Result<bool> {
        Ok(self.store.claim_delivery(delivery, LEASE).await?)
    }

    /// Records how an attempt ended, and returns the changed delivery.
    pub(crate) async fn record_attempt(&self, mut delivery: Delivery, attempt: Attempt) -> Result<Delivery> {
        let now_ms = self.now();
        delivery.attempts += 1;
        delivery.last_attempt_ms = Some(now_ms);
        delivery.last_code = attempt.code;
        delivery.last_latency_ms = Some(attempt.latency_ms);
        delivery.last_error.clear();
        let mut tx = self.store.begin().await?;
        match attempt.next {
            Next::Done => delivery.status = DeliveryStatus::Delivered,
            Next::Retry { after_ms, error } => {
                delivery.last_error = error;
                delivery.next_attempt_ms = now_ms.saturating_add(after_ms);
                if delivery.next_attempt_ms >= delivery.give_up_ms {
                    delivery.status = DeliveryStatus::GivenUp;
                }
            }
            Next::Gone => {
                delivery.status = DeliveryStatus::GivenUp;
                delivery.last_error = "the receiver is gone for good (410)".to_owned();
                let rules = tx.alert_rules().await?;
                if let Some(mut rule) = rules.into_iter().find(|rule| rule.rule_id == delivery.rule_id) {
                    rule.enabled = false;
                    rule.disabled_reason = "the receiver answered 410 Gone".to_owned();
                    tx.save_alert_rule(&rule).await?;
                    tx.give_up_deliveries(&rule.rule_id, "the rule was switched off: 410 Gone").await?;
                }
            }
        }
        tx.save_delivery(&delivery).await?;
        tx.commit().await?;
        metrics::counter!("kill_switch_alert_attempts_total", "channel" => delivery.channel.as_str(),
            "status" => delivery.status.as_str())
        .increment(1);
        self.beat();
        Ok(delivery)
    }
}

fn concerns(rule: &AlertRule, event: &Event, now_ms: Millis) -> bool {
    let is_about_fleet = event.body.agent_id.is_empty();
    let is_about = is_about_fleet || rule.agent_id.as_deref().is_none_or(|agent_id| agent_id == event.body.agent_id);
    // A rule that seems to be made in the future is from before the clock was set back.
    let is_later = event.body.at_ms >= rule.created_ms || rule.created_ms > now_ms.saturating_add(CLOCK_TOLERANCE_MS);
    rule.enabled && is_about && is_later && is_loop_or_recovery(event)
}

/// Whether the event is a loop or the recovery from one. Activating an agent that a person had deactivated is neither.
fn is_loop_or_recovery(event: &Event) -> bool {
    let was = event.body.detail.get("was_deactivated_by").and_then(Value::as_str);
    event.body.event_type != EventType::Activated || was == Some(DeactivatedBy::KillSwitch.as_str())
}

/// Returns whether an event is about a whole agent or one conversation.
fn scope(event: &Event) -> Scope {
    let scope = event.body.detail.get("scope").and_then(Value::as_str);
    scope.and_then(|scope| scope.parse().ok()).unwrap_or_default()
}

/// Returns what a notice says about an event.
fn event_data(event: &Event, name: &str) -> Value {
    let body = &event.body;
    let mut data = Map::new();
    data.insert("event_id".to_owned(), json!(event.id));
    data.insert("event_type".to_owned(), json!(body.event_type));
    data.insert("agent_id".to_owned(), json!(body.agent_id));
    data.insert("agent_name".to_owned(), json!(name));
    data.insert("generation".to_owned(), json!(body.generation));
    data.insert("actor".to_owned(), json!(body.actor));
    data.insert("reason".to_owned(), json!(body.reason));
    // A flag of its own, so that receivers can easily tell a dry run from a real kill.
    data.insert("dry_run".to_owned(), json!(body.event_type == EventType::WouldKill));
    for member in DETAIL_MEMBERS {
        if let Some(value) = body.detail.get(member) {
            data.insert(member.to_owned(), value.clone());
        }
    }
    Value::Object(data)
}
