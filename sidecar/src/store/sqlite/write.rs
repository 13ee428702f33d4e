//! The steps of a transaction, on the one writing connection.

use agent_kill_switch::wire::ScoreSample;
use async_trait::async_trait;
use sqlx::{Sqlite, Transaction};

use crate::model::{Agent, KillRecord, Millis, NewEvent, Token};
use crate::store::{AlertTx, Expiry, Result, Tx, row};

/// A transaction that holds the write lock from its start.
pub(super) struct SqliteTx(pub(super) Transaction<'static, Sqlite>);

impl SqliteTx {
    pub(super) fn new(tx: Transaction<'static, Sqlite>) -> Self {
        Self(tx)
    }

    async fn next_rev(&mut self) -> Result<u64> {
        let rev: i64 =
            sqlx::query_scalar("UPDATE meta SET rev = rev + 1 RETURNING rev").fetch_one(&mut *self.0).await?;
        Ok(u64::try_from(rev).unwrap_or_default())
    }
}

#[async_trait]
impl Tx for SqliteTx {
    async fn agent(&mut self, agent_id: &str) -> Result<Option<Agent>> {
        let found =
            sqlx::query("SELECT * FROM agents WHERE agent_id = ?").bind(agent_id).fetch_optional(&mut *self.0).await?;
        found.as_ref().map(row::agent).transpose()
    }

    async fn save_agent(&mut self, agent: &Agent) -> Result<u64> {
        let rev = self.next_rev().await?;
        let policy = &agent.policy;
        sqlx::query(
            "INSERT INTO agents (agent_id, name, active, deactivated_by, generation, kill_switch_enabled,
                 kill_switch_window_size, kill_switch_threshold, action, counting, retry_after_seconds, first_seen_ms,
                 last_seen_ms, rev, discovered, deleted)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (agent_id) DO UPDATE SET name = excluded.name, active = excluded.active,
                 deactivated_by = excluded.deactivated_by, generation = excluded.generation,
                 kill_switch_enabled = excluded.kill_switch_enabled,
                 kill_switch_window_size = excluded.kill_switch_window_size,
                 kill_switch_threshold = excluded.kill_switch_threshold, action = excluded.action,
                 counting = excluded.counting, retry_after_seconds = excluded.retry_after_seconds,
                 first_seen_ms = excluded.first_seen_ms, last_seen_ms = excluded.last_seen_ms, rev = excluded.rev,
                 discovered = excluded.discovered, deleted = excluded.deleted",
        )
        .bind(&policy.agent_id)
        .bind(&agent.name)
        .bind(policy.active)
        .bind(policy.deactivated_by.map(row::deactivated_by_word))
        .bind(row::to_i64(policy.generation))
        .bind(policy.kill_switch_enabled)
        .bind(policy.kill_switch_window_size)
        .bind(policy.kill_switch_threshold)
        .bind(row::action_word(policy.action))
        .bind(row::counting_word(policy.counting))
        .bind(policy.retry_after_seconds)
        .bind(agent.first_seen_ms.map(row::to_i64))
        .bind(agent.last_seen_ms.map(row::to_i64))
        .bind(row::to_i64(rev))
        .bind(agent.discovered)
        .bind(agent.deleted)
        .execute(&mut *self.0)
        .await?;
        Ok(rev)
    }

    async fn touch_agent(&mut self, agent_id: &str, seen_ms: Millis) -> Result<()> {
        sqlx::query(
            "UPDATE agents SET first_seen_ms = min(coalesce(first_seen_ms, ?2), ?2),
                 last_seen_ms = max(coalesce(last_seen_ms, ?2), ?2) WHERE agent_id = ?1",
        )
        .bind(agent_id)
        .bind(row::to_i64(seen_ms))
        .execute(&mut *self.0)
        .await?;
        Ok(())
    }

    async fn discovered_agents(&mut self) -> Result<u64> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM agents WHERE discovered = 1 AND deleted = 0")
            .fetch_one(&mut *self.0)
            .await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    async fn append_event(&mut self, event: &NewEvent) -> Result<u64> {
        let detail = serde_json::Value::Object(event.detail.clone()).to_string();
        let id: i64 = sqlx::query_scalar(
            "INSERT INTO events (at_ms, event_type, agent_id, generation, actor, reason, detail)
             VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        )
        .bind(row::to_i64(event.at_ms))
        .bind(event.event_type.as_str())
        .bind(&event.agent_id)
        .bind(row::to_i64(event.generation))
        .bind(&event.actor)
        .bind(&event.reason)
        .bind(detail)
        .fetch_one(&mut *self.0)
        .await?;
        Ok(u64::try_from(id).unwrap_or_default())
    }

    async fn enqueue_alert(&mut self, event_id: u64, created_ms: Millis, expires_ms: Millis) -> Result<()> {
        sqlx::query("INSERT INTO alert_outbox (event_id, created_ms, expires_ms) VALUES (?, ?, ?)")
            .bind(row::to_i64(event_id))
            .bind(row::to_i64(created_ms))
            .bind(row::to_i64(expires_ms))
            .execute(&mut *self.0)
            .await?;
        Ok(())
    }

    fn alerts(&mut self) -> &mut dyn AlertTx {
        self
    }

    async fn kill(&mut self, kill_id: &str) -> Result<Option<KillRecord>> {
        let found =
            sqlx::query("SELECT * FROM kills WHERE kill_id = ?").bind(kill_id).fetch_optional(&mut *self.0).await?;
        found.as_ref().map(row::kill).transpose()
    }

    async fn applied_kill(&mut self, agent_id: &str, generation: u64) -> Result<Option<KillRecord>> {
        let found = sqlx::query("SELECT * FROM kills WHERE agent_id = ? AND generation = ? AND outcome = 'applied'")
            .bind(agent_id)
            .bind(row::to_i64(generation))
            .fetch_optional(&mut *self.0)
            .await?;
        found.as_ref().map(row::kill).transpose()
    }

    async fn record_kill(&mut self, kill: &KillRecord) -> Result<()> {
        sqlx::query(
            "INSERT INTO kills (kill_id, agent_id, generation, outcome, event_id, received_ms)
             VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(&kill.kill_id)
        .bind(&kill.agent_id)
        .bind(row::to_i64(kill.generation))
        .bind(kill.outcome.as_str())
        .bind(row::to_i64(kill.event_id))
        .bind(row::to_i64(kill.received_ms))
        .execute(&mut *self.0)
        .await?;
        Ok(())
    }

    async fn append_scores(&mut self, agent_id: &str, scores: &[ScoreSample], keep: u32) -> Result<()> {
        for sample in scores {
            sqlx::query(
                "INSERT INTO scores (agent_id, at_ms, score, similar_prompts, similar_responses, repeated_tool_calls)
                 VALUES (?, ?, ?, ?, ?, ?)",
            )
            .bind(agent_id)
            .bind(row::to_i64(sample.at_ms))
            .bind(sample.score)
            .bind(sample.signals.similar_prompts)
            .bind(sample.signals.similar_responses)
            .bind(sample.signals.repeated_tool_calls)
            .execute(&mut *self.0)
            .await?;
        }
        sqlx::query(
            "DELETE FROM scores WHERE agent_id = ?1 AND id <=
                 (SELECT id FROM scores WHERE agent_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(agent_id)
        .bind(keep)
        .execute(&mut *self.0)
        .await?;
        Ok(())
    }

    async fn add_token(&mut self, token: &Token) -> Result<()> {
        sqlx::query(
            "INSERT INTO tokens (token_id, name, scope, hash, created_ms, revoked_ms) VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(&token.token_id)
        .bind(&token.name)
        .bind(token.scope.as_str())
        .bind(token.hash.as_slice())
        .bind(row::to_i64(token.created_ms))
        .bind(token.revoked_ms.map(row::to_i64))
        .execute(&mut *self.0)
        .await?;
        Ok(())
    }

    async fn revoke_token(&mut self, token_id: &str, now_ms: Millis) -> Result<bool> {
        let done = sqlx::query("UPDATE tokens SET revoked_ms = ? WHERE token_id = ? AND revoked_ms IS NULL")
            .bind(row::to_i64(now_ms))
            .bind(token_id)
            .execute(&mut *self.0)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn expire(&mut self, expiry: &Expiry) -> Result<()> {
        sqlx::query("DELETE FROM scores WHERE at_ms < ?")
            .bind(row::to_i64(expiry.scores_before_ms))
            .execute(&mut *self.0)
            .await?;
        sqlx::query("DELETE FROM alert_outbox WHERE expires_ms <= ?")
            .bind(row::to_i64(expiry.now_ms))
            .execute(&mut *self.0)
            .await?;
        sqlx::query("DELETE FROM alert_deliveries WHERE created_ms < ? AND status <> 'pending'")
            .bind(row::to_i64(expiry.deliveries_before_ms))
            .execute(&mut *self.0)
            .await?;
        let Some(before) = expiry.events_before_ms.map(row::to_i64) else { return Ok(()) };
        // A report is remembered as long as its event.
        sqlx::query("DELETE FROM kills WHERE received_ms < ?").bind(before).execute(&mut *self.0).await?;
        sqlx::query("DELETE FROM events WHERE at_ms < ?").bind(before).execute(&mut *self.0).await?;
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        Ok(self.0.commit().await?)
    }
}
