//! Alert rules and deliveries: the part of the contract that only alerts use.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::model::{AlertRule, Delivery, DeliveryStatus, Event, Millis, NoticeKind};

/// Which deliveries to list, the newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Only those before this number.
    pub before: Option<u64>,
    /// Under this rule only.
    pub rule_id: Option<String>,
    /// About this agent only.
    pub agent_id: Option<String>,
    /// With this status only.
    pub status: Option<DeliveryStatus>,
    /// At most so many.
    pub limit: u32,
}

/// Reads, of committed state only.
#[async_trait]
pub trait AlertStore: Send + Sync {
    /// Every alert rule, the oldest first.
    async fn alert_rules(&self) -> Result<Vec<AlertRule>>;
    /// One alert rule.
    async fn alert_rule(&self, rule_id: &str) -> Result<Option<AlertRule>>;
    /// A page of deliveries.
    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Vec<Delivery>>;
    /// How many deliveries have not arrived and are still tried.
    async fn pending_deliveries(&self) -> Result<usize>;
    /// Deliveries whose next try is due and that no other process is trying, those that wait for longest first.
    async fn due_deliveries(&self, now_ms: Millis, limit: u32) -> Result<Vec<Delivery>>;
    /// Takes the next try of a delivery for this process alone, until its outcome is saved or the lease is over; false
    /// if another process has it, or had it meanwhile.
    async fn claim_delivery(&self, delivery: &Delivery, lease: Duration) -> Result<bool>;
}

/// Steps of a transaction.
#[async_trait]
pub trait AlertTx: Send {
    /// The events that wait in the outbox, the oldest first.
    async fn outbox(&mut self, limit: u32) -> Result<Vec<Event>>;
    /// Takes an event out of the outbox.
    async fn dequeue_alert(&mut self, event_id: u64) -> Result<()>;
    /// Every alert rule, the oldest first.
    async fn alert_rules(&mut self) -> Result<Vec<AlertRule>>;
    /// Writes the whole rule, new or not.
    async fn save_alert_rule(&mut self, rule: &AlertRule) -> Result<()>;
    /// Removes a rule; false if there is none. Its pending deliveries are given up.
    async fn delete_alert_rule(&mut self, rule_id: &str) -> Result<bool>;
    /// Gives up every pending delivery of a rule.
    async fn give_up_deliveries(&mut self, rule_id: &str, reason: &str) -> Result<()>;
    /// The latest delivery of a kind about an agent under a rule.
    async fn last_delivery(&mut self, rule_id: &str, agent_id: &str, kinds: &[NoticeKind]) -> Result<Option<Delivery>>;
    /// When a notice of a kind about an agent was last sent under a rule, rather than held back.
    async fn last_sent(&mut self, rule_id: &str, agent_id: &str, kind: NoticeKind) -> Result<Option<Millis>>;
    /// Adds a delivery, numbered; a second one of the same rule and event is left out.
    async fn add_delivery(&mut self, delivery: &Delivery) -> Result<()>;
    /// Writes what became of a delivery. One that arrived stays so, whoever else tried it.
    async fn save_delivery(&mut self, delivery: &Delivery) -> Result<()>;
}
