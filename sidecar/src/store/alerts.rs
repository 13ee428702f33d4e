//! The tables of alert rules and of deliveries.

use std::time::Duration;

use super::row::readable;
use super::statement::Argument;
use super::{Connection, Result, Row, Statement, Store, Tx};
use crate::clock::CLOCK_TOLERANCE_MS;
use crate::model::{AlertRule, Channel, Delivery, DeliveryStatus, Millis, NoticeKind};

/// Which deliveries to list, newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryQuery {
    /// Only deliveries before this number.
    pub before: Option<u64>,
    /// Only deliveries of this rule.
    pub rule_id: Option<String>,
    /// Only deliveries about this agent.
    pub agent_id: Option<String>,
    /// Only deliveries with this status.
    pub status: Option<DeliveryStatus>,
    /// The largest number of deliveries to return.
    pub limit: u32,
}

fn select_rules(rest: &'static str) -> Statement {
    let columns = "SELECT rule_id, name, agent_id, channel, target, secret, cooldown_seconds, recovery, enabled,
         disabled_reason, created_ms FROM alert_rules";
    Statement::new(columns).push(rest)
}

fn alert_rule(row: &Row) -> Result<AlertRule> {
    Ok(AlertRule {
        rule_id: row.text("rule_id")?,
        name: row.text("name")?,
        agent_id: row.get("agent_id")?,
        channel: row.word("channel", Channel::parse)?,
        target: row.text("target")?,
        secret: row.get("secret")?,
        cooldown_seconds: row.integer("cooldown_seconds")?,
        recovery: row.get("recovery")?,
        enabled: row.get("enabled")?,
        disabled_reason: row.text("disabled_reason")?,
        created_ms: row.integer("created_ms")?,
    })
}

fn select_deliveries(rest: &'static str) -> Statement {
    let columns =
        "SELECT seq, delivery_id, rule_id, channel, kind, scope, agent_id, event_id, payload, status, attempts,
         created_ms, next_attempt_ms, give_up_ms, last_attempt_ms, last_code, last_latency_ms, last_error
         FROM alert_deliveries";
    Statement::new(columns).push(rest)
}

fn delivery(row: &Row) -> Result<Delivery> {
    Ok(Delivery {
        seq: row.integer("seq")?,
        delivery_id: row.text("delivery_id")?,
        rule_id: row.text("rule_id")?,
        channel: row.word("channel", Channel::parse)?,
        kind: row.word("kind", NoticeKind::parse)?,
        scope: row.word("scope", |word| word.parse().ok())?,
        agent_id: row.text("agent_id")?,
        event_id: row.optional_integer("event_id")?,
        payload: row.text("payload")?,
        status: row.word("status", DeliveryStatus::parse)?,
        attempts: row.integer("attempts")?,
        created_ms: row.integer("created_ms")?,
        next_attempt_ms: row.integer("next_attempt_ms")?,
        give_up_ms: row.integer("give_up_ms")?,
        last_attempt_ms: row.optional_integer("last_attempt_ms")?,
        last_code: row.optional_integer("last_code")?,
        last_latency_ms: row.optional_integer("last_latency_ms")?,
        last_error: row.text("last_error")?,
    })
}

fn deliveries(rows: &[Row]) -> Result<Vec<Delivery>> {
    readable("alert_deliveries", "delivery_id", rows, delivery)
}

async fn alert_rules(connection: &mut dyn Connection) -> Result<Vec<AlertRule>> {
    let rows = connection.rows(select_rules("ORDER BY created_ms, rule_id")).await?;
    readable("alert_rules", "rule_id", &rows, alert_rule)
}

pub(super) async fn unreadable_rules(connection: &mut dyn Connection) -> Result<usize> {
    Ok(connection.rows(select_rules("")).await?.iter().filter(|row| alert_rule(row).is_err()).count())
}

impl Store {
    /// Returns every alert rule, oldest first.
    pub async fn alert_rules(&self) -> Result<Vec<AlertRule>> {
        alert_rules(self.database.reader().await?.as_mut()).await
    }

    /// Returns an alert rule.
    pub async fn alert_rule(&self, rule_id: &str) -> Result<Option<AlertRule>> {
        let statement = select_rules("WHERE rule_id = $1").bind(rule_id);
        self.database.reader().await?.optional_row(statement).await?.as_ref().map(alert_rule).transpose()
    }

    /// Returns a page of deliveries.
    pub async fn deliveries(&self, query: &DeliveryQuery) -> Result<Vec<Delivery>> {
        let statement = select_deliveries("WHERE seq < $1")
            .bind(query.before.unwrap_or(u64::MAX))
            .and("rule_id = ?", query.rule_id.as_deref())
            .and("agent_id = ?", query.agent_id.as_deref())
            .and("status = ?", query.status.map(DeliveryStatus::as_str))
            .push_bind("ORDER BY seq DESC LIMIT ?", query.limit);
        deliveries(&self.database.reader().await?.rows(statement).await?)
    }

    /// Returns the deliveries that an event led to, oldest first.
    pub async fn deliveries_of(&self, event_id: u64, limit: u32) -> Result<Vec<Delivery>> {
        let statement = select_deliveries("WHERE event_id = $1 ORDER BY seq LIMIT $2").bind(event_id).bind(limit);
        deliveries(&self.database.reader().await?.rows(statement).await?)
    }

    /// Counts the deliveries that are still pending.
    pub async fn pending_deliveries(&self) -> Result<usize> {
        let statement = Statement::new("SELECT count(*) AS count FROM alert_deliveries WHERE status = 'pending'");
        self.database.reader().await?.row(statement).await?.integer("count")
    }

    /// Returns the deliveries whose next attempt is due and that no other process is attempting, at most `per_rule` of each
    /// rule. Those that have waited longest come first. A delivery is also due if the clock was set back since its last
    /// attempt.
    pub async fn due_deliveries(&self, now_ms: Millis, per_rule: u32) -> Result<Vec<Delivery>> {
        let statement = select_deliveries(
            "WHERE seq IN (SELECT seq FROM (
                 SELECT seq, row_number() OVER (PARTITION BY rule_id ORDER BY next_attempt_ms, seq) AS place
                 FROM alert_deliveries
                 WHERE status = 'pending' AND (next_attempt_ms <= $1 OR COALESCE(last_attempt_ms, created_ms) > $3)",
        );
        let statement = statement
            .push(self.database.dialect().and_unclaimed)
            .push(") AS due WHERE place <= $2) ORDER BY next_attempt_ms, seq")
            .bind(now_ms)
            .bind(per_rule)
            .bind(now_ms.saturating_add(CLOCK_TOLERANCE_MS));
        deliveries(&self.database.reader().await?.rows(statement).await?)
    }

    /// Reserves the next attempt at a delivery: see [`Database::claim_delivery`](super::Database::claim_delivery).
    pub async fn claim_delivery(&self, delivery: &Delivery, lease: Duration) -> Result<bool> {
        self.database.claim_delivery(delivery, lease).await
    }
}

impl Tx {
    /// Returns every alert rule, oldest first.
    pub async fn alert_rules(&mut self) -> Result<Vec<AlertRule>> {
        alert_rules(self.connection()).await
    }

    /// Writes the whole rule, whether it is new or not.
    pub async fn save_alert_rule(&mut self, rule: &AlertRule) -> Result<()> {
        let statement = Statement::new(
            "INSERT INTO alert_rules (rule_id, name, agent_id, channel, target, secret, cooldown_seconds, recovery,
                 enabled, disabled_reason, created_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             ON CONFLICT (rule_id) DO UPDATE SET name = excluded.name, agent_id = excluded.agent_id,
                 channel = excluded.channel, target = excluded.target, secret = excluded.secret,
                 cooldown_seconds = excluded.cooldown_seconds, recovery = excluded.recovery,
                 enabled = excluded.enabled, disabled_reason = excluded.disabled_reason",
        )
        .bind(&rule.rule_id)
        .bind(&rule.name)
        .bind(rule.agent_id.as_deref())
        .bind(rule.channel.as_str())
        .bind(&rule.target)
        .bind(rule.secret.as_deref())
        .bind(rule.cooldown_seconds)
        .bind(rule.recovery)
        .bind(rule.enabled)
        .bind(&rule.disabled_reason)
        .bind(rule.created_ms);
        self.connection().run(statement).await.map(drop)
    }

    /// Deletes a rule and gives up its pending deliveries. Returns false if there is no such rule.
    pub async fn delete_alert_rule(&mut self, rule_id: &str) -> Result<bool> {
        self.give_up_deliveries(rule_id, "the rule was deleted").await?;
        let statement = Statement::new("DELETE FROM alert_rules WHERE rule_id = $1").bind(rule_id);
        Ok(self.connection().run(statement).await? > 0)
    }

    /// Gives up every pending delivery of a rule.
    pub async fn give_up_deliveries(&mut self, rule_id: &str, reason: &str) -> Result<()> {
        let statement = Statement::new(
            "UPDATE alert_deliveries SET status = 'given_up', last_error = $1
             WHERE rule_id = $2 AND status = 'pending'",
        );
        self.connection().run(statement.bind(reason).bind(rule_id)).await.map(drop)
    }

    /// Returns the latest delivery about an agent under a rule that is of one of the kinds. Deliveries about single
    /// conversations do not count.
    pub async fn last_delivery(
        &mut self,
        rule_id: &str,
        agent_id: &str,
        kinds: &[NoticeKind],
    ) -> Result<Option<Delivery>> {
        let statement = select_deliveries("WHERE rule_id = $1 AND agent_id = $2 AND scope = 'agent' AND kind IN")
            .bind(rule_id)
            .bind(agent_id)
            .push_list(kinds.iter().map(|kind| Argument::from(kind.as_str())))
            .push("ORDER BY seq DESC LIMIT 1");
        self.connection().optional_row(statement).await?.as_ref().map(delivery).transpose()
    }

    /// Returns when a notice like this one, that is, of the same kind and scope about the same agent, was last sent under
    /// the same rule. Notices that were held back do not count.
    pub async fn last_sent(&mut self, like: &Delivery) -> Result<Option<Millis>> {
        let statement = Statement::new(
            "SELECT created_ms FROM alert_deliveries
             WHERE rule_id = $1 AND agent_id = $2 AND kind = $3 AND scope = $4 AND status <> 'held_back'
             ORDER BY seq DESC LIMIT 1",
        );
        let statement =
            statement.bind(&like.rule_id).bind(&like.agent_id).bind(like.kind.as_str()).bind(like.scope.as_str());
        self.connection().optional_row(statement).await?.map(|row| row.integer("created_ms")).transpose()
    }

    /// Adds a delivery and gives it the next number. A second delivery of the same event under the same rule is left
    /// out.
    pub async fn add_delivery(&mut self, delivery: &Delivery) -> Result<()> {
        let statement = Statement::new(
            "INSERT INTO alert_deliveries (delivery_id, rule_id, channel, kind, scope, agent_id, event_id, payload,
                 status, created_ms, next_attempt_ms, give_up_ms, last_error)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
             ON CONFLICT (rule_id, event_id) WHERE event_id IS NOT NULL DO NOTHING",
        )
        .bind(&delivery.delivery_id)
        .bind(&delivery.rule_id)
        .bind(delivery.channel.as_str())
        .bind(delivery.kind.as_str())
        .bind(delivery.scope.as_str())
        .bind(&delivery.agent_id)
        .bind(delivery.event_id)
        .bind(&delivery.payload)
        .bind(delivery.status.as_str())
        .bind(delivery.created_ms)
        .bind(delivery.next_attempt_ms)
        .bind(delivery.give_up_ms)
        .bind(&delivery.last_error);
        self.connection().run(statement).await.map(drop)
    }

    /// Writes the outcome of an attempt. A delivery that has arrived stays delivered, whoever else attempted it.
    pub async fn save_delivery(&mut self, delivery: &Delivery) -> Result<()> {
        let statement = Statement::new(
            "UPDATE alert_deliveries SET status = $1, attempts = $2, next_attempt_ms = $3, last_attempt_ms = $4,
                 last_code = $5, last_latency_ms = $6, last_error = $7",
        )
        .push(self.dialect.and_release_claim)
        .push("WHERE delivery_id = $8 AND status <> 'delivered'")
        .bind(delivery.status.as_str())
        .bind(delivery.attempts)
        .bind(delivery.next_attempt_ms)
        .bind(delivery.last_attempt_ms)
        .bind(delivery.last_code.map(u64::from))
        .bind(delivery.last_latency_ms)
        .bind(&delivery.last_error)
        .bind(&delivery.delivery_id);
        self.connection().run(statement).await.map(drop)
    }
}
