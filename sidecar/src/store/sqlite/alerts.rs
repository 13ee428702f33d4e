//! Alert rules and deliveries: the same statements for reads inside and outside a transaction.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Executor, QueryBuilder, Sqlite, SqliteConnection, SqlitePool};

use super::SqliteStore;
use super::write::SqliteTx;
use crate::model::{AlertRule, Delivery, Event, Millis, NoticeKind};
use crate::store::{AlertStore, AlertTx, DeliveryQuery, Result, row};

#[async_trait]
impl AlertStore for SqliteStore {
    async fn alert_rules(&self) -> Result<Vec<AlertRule>> {
        rules(&self.reader).await
    }

    async fn alert_rule(&self, rule_id: &str) -> Result<Option<AlertRule>> {
        rule(&self.reader, rule_id).await
    }

    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Vec<Delivery>> {
        deliveries(&self.reader, query).await
    }

    async fn pending_deliveries(&self) -> Result<usize> {
        pending(&self.reader).await
    }

    async fn due_deliveries(&self, now_ms: Millis, limit: u32) -> Result<Vec<Delivery>> {
        due(&self.reader, now_ms, limit).await
    }

    async fn claim_delivery(&self, _delivery: &Delivery, _lease: Duration) -> Result<bool> {
        // One process serves the file, and knows by itself what it is trying.
        Ok(true)
    }
}

#[async_trait]
impl AlertTx for SqliteTx {
    async fn outbox(&mut self, limit: u32) -> Result<Vec<Event>> {
        outbox(&mut self.0, limit).await
    }

    async fn dequeue_alert(&mut self, event_id: u64) -> Result<()> {
        dequeue(&mut self.0, event_id).await
    }

    async fn alert_rules(&mut self) -> Result<Vec<AlertRule>> {
        rules(&mut *self.0).await
    }

    async fn save_alert_rule(&mut self, rule: &AlertRule) -> Result<()> {
        save_rule(&mut self.0, rule).await
    }

    async fn delete_alert_rule(&mut self, rule_id: &str) -> Result<bool> {
        delete_rule(&mut self.0, rule_id).await
    }

    async fn give_up_deliveries(&mut self, rule_id: &str, reason: &str) -> Result<()> {
        give_up(&mut self.0, rule_id, reason).await
    }

    async fn last_delivery(&mut self, rule_id: &str, agent_id: &str, kinds: &[NoticeKind]) -> Result<Option<Delivery>> {
        last(&mut self.0, (rule_id, agent_id), kinds).await
    }

    async fn last_sent(&mut self, rule_id: &str, agent_id: &str, kind: NoticeKind) -> Result<Option<Millis>> {
        last_sent(&mut self.0, (rule_id, agent_id), kind).await
    }

    async fn add_delivery(&mut self, delivery: &Delivery) -> Result<()> {
        add_delivery(&mut self.0, delivery).await
    }

    async fn save_delivery(&mut self, delivery: &Delivery) -> Result<()> {
        save_delivery(&mut self.0, delivery).await
    }
}

async fn rules<'c>(from: impl Executor<'c, Database = Sqlite>) -> Result<Vec<AlertRule>> {
    let rows = sqlx::query("SELECT * FROM alert_rules ORDER BY created_ms, rule_id").fetch_all(from).await?;
    rows.iter().map(row::alert_rule).collect()
}

async fn rule(pool: &SqlitePool, rule_id: &str) -> Result<Option<AlertRule>> {
    let found = sqlx::query("SELECT * FROM alert_rules WHERE rule_id = ?").bind(rule_id).fetch_optional(pool).await?;
    found.as_ref().map(row::alert_rule).transpose()
}

async fn deliveries(pool: &SqlitePool, query: &DeliveryQuery) -> Result<Vec<Delivery>> {
    let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM alert_deliveries WHERE seq < ");
    sql.push_bind(query.before.map_or(i64::MAX, row::to_i64));
    if let Some(rule_id) = &query.rule_id {
        sql.push(" AND rule_id = ").push_bind(rule_id.as_str());
    }
    if let Some(agent_id) = &query.agent_id {
        sql.push(" AND agent_id = ").push_bind(agent_id.as_str());
    }
    if let Some(status) = query.status {
        sql.push(" AND status = ").push_bind(status.as_str());
    }
    sql.push(" ORDER BY seq DESC LIMIT ").push_bind(query.limit);
    let rows = sql.build().fetch_all(pool).await?;
    rows.iter().map(row::delivery).collect()
}

async fn pending(pool: &SqlitePool) -> Result<usize> {
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM alert_deliveries WHERE status = 'pending'").fetch_one(pool).await?;
    Ok(usize::try_from(count).unwrap_or_default())
}

async fn due(pool: &SqlitePool, now_ms: Millis, limit: u32) -> Result<Vec<Delivery>> {
    let rows = sqlx::query(
        "SELECT * FROM alert_deliveries WHERE status = 'pending' AND next_attempt_ms <= ?
         ORDER BY next_attempt_ms, seq LIMIT ?",
    )
    .bind(row::to_i64(now_ms))
    .bind(limit)
    .fetch_all(pool)
    .await?;
    rows.iter().map(row::delivery).collect()
}

async fn outbox(tx: &mut SqliteConnection, limit: u32) -> Result<Vec<Event>> {
    let rows =
        sqlx::query("SELECT events.* FROM events JOIN alert_outbox ON event_id = events.id ORDER BY events.id LIMIT ?")
            .bind(limit)
            .fetch_all(tx)
            .await?;
    rows.iter().map(row::event).collect()
}

async fn dequeue(tx: &mut SqliteConnection, event_id: u64) -> Result<()> {
    sqlx::query("DELETE FROM alert_outbox WHERE event_id = ?").bind(row::to_i64(event_id)).execute(tx).await?;
    Ok(())
}

async fn save_rule(tx: &mut SqliteConnection, rule: &AlertRule) -> Result<()> {
    sqlx::query(
        "INSERT INTO alert_rules (rule_id, name, agent_id, channel, target, secret, cooldown_seconds, recovery, enabled,
             disabled_reason, created_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (rule_id) DO UPDATE SET name = excluded.name, agent_id = excluded.agent_id,
             channel = excluded.channel, target = excluded.target, secret = excluded.secret,
             cooldown_seconds = excluded.cooldown_seconds, recovery = excluded.recovery, enabled = excluded.enabled,
             disabled_reason = excluded.disabled_reason",
    )
    .bind(&rule.rule_id)
    .bind(&rule.name)
    .bind(&rule.agent_id)
    .bind(rule.channel.as_str())
    .bind(&rule.target)
    .bind(&rule.secret)
    .bind(rule.cooldown_seconds)
    .bind(rule.recovery)
    .bind(rule.enabled)
    .bind(&rule.disabled_reason)
    .bind(row::to_i64(rule.created_ms))
    .execute(tx)
    .await?;
    Ok(())
}

async fn delete_rule(tx: &mut SqliteConnection, rule_id: &str) -> Result<bool> {
    give_up(tx, rule_id, "the rule was deleted").await?;
    let done = sqlx::query("DELETE FROM alert_rules WHERE rule_id = ?").bind(rule_id).execute(tx).await?;
    Ok(done.rows_affected() > 0)
}

async fn give_up(tx: &mut SqliteConnection, rule_id: &str, reason: &str) -> Result<()> {
    sqlx::query(
        "UPDATE alert_deliveries SET status = 'given_up', last_error = ? WHERE rule_id = ? AND status = 'pending'",
    )
    .bind(reason)
    .bind(rule_id)
    .execute(tx)
    .await?;
    Ok(())
}

async fn last(
    tx: &mut SqliteConnection,
    (rule_id, agent_id): (&str, &str),
    kinds: &[NoticeKind],
) -> Result<Option<Delivery>> {
    let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM alert_deliveries WHERE rule_id = ");
    sql.push_bind(rule_id).push(" AND agent_id = ").push_bind(agent_id).push(" AND kind IN (");
    let mut listed = sql.separated(", ");
    for kind in kinds {
        listed.push_bind(kind.as_str());
    }
    sql.push(") ORDER BY seq DESC LIMIT 1");
    let found = sql.build().fetch_optional(tx).await?;
    found.as_ref().map(row::delivery).transpose()
}

async fn last_sent(
    tx: &mut SqliteConnection,
    (rule_id, agent_id): (&str, &str),
    kind: NoticeKind,
) -> Result<Option<Millis>> {
    let at_ms: Option<i64> = sqlx::query_scalar(
        "SELECT max(created_ms) FROM alert_deliveries
         WHERE rule_id = ? AND agent_id = ? AND kind = ? AND status <> 'held_back'",
    )
    .bind(rule_id)
    .bind(agent_id)
    .bind(kind.as_str())
    .fetch_one(tx)
    .await?;
    Ok(at_ms.and_then(|at_ms| Millis::try_from(at_ms).ok()))
}

async fn add_delivery(tx: &mut SqliteConnection, delivery: &Delivery) -> Result<()> {
    sqlx::query(
        "INSERT INTO alert_deliveries (delivery_id, rule_id, channel, kind, agent_id, event_id, payload, status,
             created_ms, next_attempt_ms, give_up_ms, last_error)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (rule_id, event_id) WHERE event_id IS NOT NULL DO NOTHING",
    )
    .bind(&delivery.delivery_id)
    .bind(&delivery.rule_id)
    .bind(delivery.channel.as_str())
    .bind(delivery.kind.as_str())
    .bind(&delivery.agent_id)
    .bind(delivery.event_id.map(row::to_i64))
    .bind(&delivery.payload)
    .bind(delivery.status.as_str())
    .bind(row::to_i64(delivery.created_ms))
    .bind(row::to_i64(delivery.next_attempt_ms))
    .bind(row::to_i64(delivery.give_up_ms))
    .bind(&delivery.last_error)
    .execute(tx)
    .await?;
    Ok(())
}

async fn save_delivery(tx: &mut SqliteConnection, delivery: &Delivery) -> Result<()> {
    sqlx::query(
        "UPDATE alert_deliveries SET status = ?, attempts = ?, next_attempt_ms = ?, last_attempt_ms = ?, last_code = ?,
             last_latency_ms = ?, last_error = ? WHERE delivery_id = ? AND status <> 'delivered'",
    )
    .bind(delivery.status.as_str())
    .bind(delivery.attempts)
    .bind(row::to_i64(delivery.next_attempt_ms))
    .bind(delivery.last_attempt_ms.map(row::to_i64))
    .bind(delivery.last_code)
    .bind(delivery.last_latency_ms.map(row::to_i64))
    .bind(&delivery.last_error)
    .bind(&delivery.delivery_id)
    .execute(tx)
    .await?;
    Ok(())
}
