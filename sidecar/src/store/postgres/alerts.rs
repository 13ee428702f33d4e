//! Alert rules and deliveries: the same statements for reads inside and outside a transaction.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder, Row as _};

use super::columns;
use super::line::Line;
use super::write::PostgresTx;
use super::{PostgresStore, text};
use crate::model::{AlertRule, Delivery, Event, Millis, NoticeKind};
use crate::store::{AlertStore, AlertTx, DeliveryQuery, Result, row};

#[async_trait]
impl AlertStore for PostgresStore {
    async fn alert_rules(&self) -> Result<Vec<AlertRule>> {
        rules(&mut self.line().await?).await
    }

    async fn alert_rule(&self, rule_id: &str) -> Result<Option<AlertRule>> {
        let statement = sqlx::query(columns::rules!("WHERE rule_id = $1")).bind(text(rule_id));
        let found = self.line().await?.optional(statement).await?;
        found.as_ref().map(row::alert_rule).transpose()
    }

    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Vec<Delivery>> {
        deliveries(&mut self.line().await?, query).await
    }

    async fn pending_deliveries(&self) -> Result<usize> {
        let statement = sqlx::query("SELECT count(*) AS count FROM alert_deliveries WHERE status = 'pending'");
        let count: i64 = self.line().await?.row(statement).await?.try_get("count")?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    async fn due_deliveries(&self, now_ms: Millis, limit: u32) -> Result<Vec<Delivery>> {
        let statement = sqlx::query(columns::deliveries!(
            "WHERE status = 'pending' AND next_attempt_ms <= $1 AND claimed_until <= now()
             ORDER BY next_attempt_ms, seq LIMIT $2"
        ))
        .bind(row::to_i64(now_ms))
        .bind(i64::from(limit));
        self.line().await?.rows(statement).await?.iter().map(row::delivery).collect()
    }

    async fn claim_delivery(&self, delivery: &Delivery, lease: Duration) -> Result<bool> {
        // Of two that come at once, the second waits for the first and then finds the condition false. `attempts` tells
        // whether there was a try in between.
        let statement = sqlx::query(
            "UPDATE alert_deliveries SET claimed_until = now() + $3 * interval '1 second'
             WHERE delivery_id = $1 AND attempts = $2 AND status = 'pending' AND claimed_until <= now()",
        )
        .bind(text(&delivery.delivery_id))
        .bind(i64::from(delivery.attempts))
        .bind(lease.as_secs_f64());
        Ok(self.line().await?.run(statement).await? > 0)
    }
}

#[async_trait]
impl AlertTx for PostgresTx {
    async fn outbox(&mut self, limit: u32) -> Result<Vec<Event>> {
        let statement =
            sqlx::query(columns::events!("WHERE id IN (SELECT event_id FROM alert_outbox) ORDER BY id LIMIT $1"));
        self.line()?.rows(statement.bind(i64::from(limit))).await?.iter().map(row::event).collect()
    }

    async fn dequeue_alert(&mut self, event_id: u64) -> Result<()> {
        let statement = sqlx::query("DELETE FROM alert_outbox WHERE event_id = $1").bind(row::to_i64(event_id));
        self.line()?.run(statement).await?;
        Ok(())
    }

    async fn alert_rules(&mut self) -> Result<Vec<AlertRule>> {
        rules(self.line()?).await
    }

    async fn save_alert_rule(&mut self, rule: &AlertRule) -> Result<()> {
        save_rule(self.line()?, rule).await
    }

    async fn delete_alert_rule(&mut self, rule_id: &str) -> Result<bool> {
        self.give_up_deliveries(rule_id, "the rule was deleted").await?;
        let statement = sqlx::query("DELETE FROM alert_rules WHERE rule_id = $1").bind(text(rule_id));
        Ok(self.line()?.run(statement).await? > 0)
    }

    async fn give_up_deliveries(&mut self, rule_id: &str, reason: &str) -> Result<()> {
        let statement = sqlx::query(
            "UPDATE alert_deliveries SET status = 'given_up', last_error = $1
             WHERE rule_id = $2 AND status = 'pending'",
        );
        self.line()?.run(statement.bind(text(reason)).bind(text(rule_id))).await?;
        Ok(())
    }

    async fn last_delivery(&mut self, rule_id: &str, agent_id: &str, kinds: &[NoticeKind]) -> Result<Option<Delivery>> {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let statement = sqlx::query(columns::deliveries!(
            "WHERE rule_id = $1 AND agent_id = $2 AND kind = ANY($3) ORDER BY seq DESC LIMIT 1"
        ))
        .bind(text(rule_id))
        .bind(text(agent_id))
        .bind(kinds);
        self.line()?.optional(statement).await?.as_ref().map(row::delivery).transpose()
    }

    async fn last_sent(&mut self, rule_id: &str, agent_id: &str, kind: NoticeKind) -> Result<Option<Millis>> {
        let statement = sqlx::query(
            "SELECT max(created_ms) AS created_ms FROM alert_deliveries
             WHERE rule_id = $1 AND agent_id = $2 AND kind = $3 AND status <> 'held_back'",
        )
        .bind(text(rule_id))
        .bind(text(agent_id))
        .bind(kind.as_str());
        let at_ms: Option<i64> = self.line()?.row(statement).await?.try_get("created_ms")?;
        Ok(at_ms.and_then(|at_ms| Millis::try_from(at_ms).ok()))
    }

    async fn add_delivery(&mut self, delivery: &Delivery) -> Result<()> {
        add_delivery(self.line()?, delivery).await
    }

    async fn save_delivery(&mut self, delivery: &Delivery) -> Result<()> {
        save_delivery(self.line()?, delivery).await
    }
}

async fn rules(line: &mut Line) -> Result<Vec<AlertRule>> {
    let rows = line.rows(sqlx::query(columns::rules!("ORDER BY created_ms, rule_id"))).await?;
    rows.iter().map(row::alert_rule).collect()
}

async fn deliveries(line: &mut Line, query: &DeliveryQuery) -> Result<Vec<Delivery>> {
    let mut sql = QueryBuilder::<Postgres>::new(columns::deliveries!("WHERE seq < "));
    sql.push_bind(query.before.map_or(i64::MAX, row::to_i64));
    if let Some(rule_id) = &query.rule_id {
        sql.push(" AND rule_id = ").push_bind(text(rule_id));
    }
    if let Some(agent_id) = &query.agent_id {
        sql.push(" AND agent_id = ").push_bind(text(agent_id));
    }
    if let Some(status) = query.status {
        sql.push(" AND status = ").push_bind(status.as_str());
    }
    sql.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(query.limit));
    line.rows(sql.build()).await?.iter().map(row::delivery).collect()
}

async fn save_rule(line: &mut Line, rule: &AlertRule) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO alert_rules (rule_id, name, agent_id, channel, target, secret, cooldown_seconds, recovery, enabled,
             disabled_reason, created_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (rule_id) DO UPDATE SET name = excluded.name, agent_id = excluded.agent_id,
             channel = excluded.channel, target = excluded.target, secret = excluded.secret,
             cooldown_seconds = excluded.cooldown_seconds, recovery = excluded.recovery, enabled = excluded.enabled,
             disabled_reason = excluded.disabled_reason",
    )
    .bind(text(&rule.rule_id))
    .bind(text(&rule.name))
    .bind(rule.agent_id.as_deref().map(text))
    .bind(rule.channel.as_str())
    .bind(text(&rule.target))
    .bind(rule.secret.as_deref())
    .bind(i64::from(rule.cooldown_seconds))
    .bind(rule.recovery)
    .bind(rule.enabled)
    .bind(text(&rule.disabled_reason))
    .bind(row::to_i64(rule.created_ms));
    line.run(statement).await?;
    Ok(())
}

async fn add_delivery(line: &mut Line, delivery: &Delivery) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO alert_deliveries (delivery_id, rule_id, channel, kind, agent_id, event_id, payload, status,
             created_ms, next_attempt_ms, give_up_ms, last_error)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (rule_id, event_id) WHERE event_id IS NOT NULL DO NOTHING",
    )
    .bind(text(&delivery.delivery_id))
    .bind(text(&delivery.rule_id))
    .bind(delivery.channel.as_str())
    .bind(delivery.kind.as_str())
    .bind(text(&delivery.agent_id))
    .bind(delivery.event_id.map(row::to_i64))
    .bind(text(&delivery.payload))
    .bind(delivery.status.as_str())
    .bind(row::to_i64(delivery.created_ms))
    .bind(row::to_i64(delivery.next_attempt_ms))
    .bind(row::to_i64(delivery.give_up_ms))
    .bind(text(&delivery.last_error));
    line.run(statement).await?;
    Ok(())
}

async fn save_delivery(line: &mut Line, delivery: &Delivery) -> Result<()> {
    let statement = sqlx::query(
        "UPDATE alert_deliveries SET status = $1, attempts = $2, next_attempt_ms = $3, last_attempt_ms = $4,
             last_code = $5, last_latency_ms = $6, last_error = $7, claimed_until = '-infinity'
         WHERE delivery_id = $8 AND status <> 'delivered'",
    )
    .bind(delivery.status.as_str())
    .bind(i64::from(delivery.attempts))
    .bind(row::to_i64(delivery.next_attempt_ms))
    .bind(delivery.last_attempt_ms.map(row::to_i64))
    .bind(delivery.last_code.map(i64::from))
    .bind(delivery.last_latency_ms.map(row::to_i64))
    .bind(text(&delivery.last_error))
    .bind(text(&delivery.delivery_id));
    line.run(statement).await?;
    Ok(())
}
