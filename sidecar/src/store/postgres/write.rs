//! The steps of a transaction, on the one writing connection of this replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_kill_switch::wire::ScoreSample;
use async_trait::async_trait;
use sqlx::Row as _;

use super::columns;
use super::line::Line;
use super::text;
use super::watch::{CHANNEL, payload};
use crate::model::{Agent, KillRecord, Millis, NewEvent, Token};
use crate::store::{AlertTx, Expiry, Result, StoreError, Tx, row};

/// Rows of one table that one transaction forgets: no writer may keep the others waiting for long.
const FORGET_AT_MOST: i64 = 20_000;

/// A transaction that holds the lock of all writers from its start.
pub(super) struct PostgresTx {
    /// None once it is over.
    line: Option<Line>,
    /// What the other replicas are told if it is committed.
    payload: String,
    in_doubt: Arc<AtomicBool>,
}

impl PostgresTx {
    pub(super) async fn begin(mut line: Line, replica: &str, in_doubt: Arc<AtomicBool>) -> Result<Self> {
        line.run(sqlx::query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")).await?;
        let mut tx = Self { line: Some(line), payload: String::new(), in_doubt };
        // The lock and the count in one: another writer waits here until this one is done.
        let found = tx.line()?.row(sqlx::query("UPDATE meta SET commits = commits + 1 RETURNING commits")).await?;
        tx.payload = payload(replica, found.try_get("commits")?);
        Ok(tx)
    }

    pub(super) fn line(&mut self) -> Result<&mut Line> {
        self.line.as_mut().ok_or_else(|| StoreError::Unavailable("the transaction is over".to_owned()))
    }

    async fn next_rev(&mut self) -> Result<u64> {
        let found = self.line()?.row(sqlx::query("UPDATE meta SET rev = rev + 1 RETURNING rev")).await?;
        let rev: i64 = found.try_get("rev")?;
        Ok(u64::try_from(rev).unwrap_or_default())
    }
}

impl Drop for PostgresTx {
    fn drop(&mut self) {
        // The database rolls back what its client leaves open: a connection that is closed needs no more words.
        let Some(mut line) = self.line.take().filter(|line| !line.is_waiting()) else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                if line.run(sqlx::query("ROLLBACK")).await.is_err() {
                    line.give_up();
                }
            })),
            Err(_) => line.give_up(),
        }
    }
}

#[async_trait]
impl Tx for PostgresTx {
    async fn agent(&mut self, agent_id: &str) -> Result<Option<Agent>> {
        let statement = sqlx::query(columns::agents!("WHERE agent_id = $1")).bind(text(agent_id));
        self.line()?.optional(statement).await?.as_ref().map(row::agent).transpose()
    }

    async fn save_agent(&mut self, agent: &Agent) -> Result<u64> {
        let rev = self.next_rev().await?;
        let policy = &agent.policy;
        let statement = sqlx::query(
            "INSERT INTO agents (agent_id, name, active, deactivated_by, generation, kill_switch_enabled,
                 kill_switch_window_size, kill_switch_threshold, action, counting, retry_after_seconds, first_seen_ms,
                 last_seen_ms, rev, discovered, deleted)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
             ON CONFLICT (agent_id) DO UPDATE SET name = excluded.name, active = excluded.active,
                 deactivated_by = excluded.deactivated_by, generation = excluded.generation,
                 kill_switch_enabled = excluded.kill_switch_enabled,
                 kill_switch_window_size = excluded.kill_switch_window_size,
                 kill_switch_threshold = excluded.kill_switch_threshold, action = excluded.action,
                 counting = excluded.counting, retry_after_seconds = excluded.retry_after_seconds,
                 first_seen_ms = excluded.first_seen_ms, last_seen_ms = excluded.last_seen_ms, rev = excluded.rev,
                 discovered = excluded.discovered, deleted = excluded.deleted",
        )
        .bind(text(&policy.agent_id))
        .bind(text(&agent.name))
        .bind(policy.active)
        .bind(policy.deactivated_by.map(row::deactivated_by_word))
        .bind(row::to_i64(policy.generation))
        .bind(policy.kill_switch_enabled)
        .bind(i64::from(policy.kill_switch_window_size))
        .bind(policy.kill_switch_threshold)
        .bind(row::action_word(policy.action))
        .bind(row::counting_word(policy.counting))
        .bind(i64::from(policy.retry_after_seconds))
        .bind(agent.first_seen_ms.map(row::to_i64))
        .bind(agent.last_seen_ms.map(row::to_i64))
        .bind(row::to_i64(rev))
        .bind(agent.discovered)
        .bind(agent.deleted);
        self.line()?.run(statement).await?;
        Ok(rev)
    }

    async fn touch_agent(&mut self, agent_id: &str, seen_ms: Millis) -> Result<()> {
        // Both functions ignore nulls.
        let statement = sqlx::query(
            "UPDATE agents SET first_seen_ms = least(first_seen_ms, $2), last_seen_ms = greatest(last_seen_ms, $2)
             WHERE agent_id = $1",
        )
        .bind(text(agent_id))
        .bind(row::to_i64(seen_ms));
        self.line()?.run(statement).await?;
        Ok(())
    }

    async fn discovered_agents(&mut self) -> Result<u64> {
        let statement = sqlx::query("SELECT count(*) AS count FROM agents WHERE discovered AND NOT deleted");
        let count: i64 = self.line()?.row(statement).await?.try_get("count")?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    async fn append_event(&mut self, event: &NewEvent) -> Result<u64> {
        let detail = serde_json::Value::Object(event.detail.clone()).to_string();
        let statement = sqlx::query(
            "INSERT INTO events (at_ms, event_type, agent_id, generation, actor, reason, detail)
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
        )
        .bind(row::to_i64(event.at_ms))
        .bind(event.event_type.as_str())
        .bind(text(&event.agent_id))
        .bind(row::to_i64(event.generation))
        .bind(text(&event.actor))
        .bind(text(&event.reason))
        .bind(detail);
        let id: i64 = self.line()?.row(statement).await?.try_get("id")?;
        Ok(u64::try_from(id).unwrap_or_default())
    }

    async fn enqueue_alert(&mut self, event_id: u64, created_ms: Millis, expires_ms: Millis) -> Result<()> {
        let statement = sqlx::query("INSERT INTO alert_outbox (event_id, created_ms, expires_ms) VALUES ($1, $2, $3)")
            .bind(row::to_i64(event_id))
            .bind(row::to_i64(created_ms))
            .bind(row::to_i64(expires_ms));
        self.line()?.run(statement).await?;
        Ok(())
    }

    fn alerts(&mut self) -> &mut dyn AlertTx {
        self
    }

    async fn kill(&mut self, kill_id: &str) -> Result<Option<KillRecord>> {
        let statement = sqlx::query(columns::kills!("WHERE kill_id = $1")).bind(text(kill_id));
        self.line()?.optional(statement).await?.as_ref().map(row::kill).transpose()
    }

    async fn applied_kill(&mut self, agent_id: &str, generation: u64) -> Result<Option<KillRecord>> {
        let sql = columns::kills!("WHERE agent_id = $1 AND generation = $2 AND outcome = 'applied'");
        let statement = sqlx::query(sql).bind(text(agent_id)).bind(row::to_i64(generation));
        self.line()?.optional(statement).await?.as_ref().map(row::kill).transpose()
    }

    async fn record_kill(&mut self, kill: &KillRecord) -> Result<()> {
        let statement = sqlx::query(
            "INSERT INTO kills (kill_id, agent_id, generation, outcome, event_id, received_ms)
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(text(&kill.kill_id))
        .bind(text(&kill.agent_id))
        .bind(row::to_i64(kill.generation))
        .bind(kill.outcome.as_str())
        .bind(row::to_i64(kill.event_id))
        .bind(row::to_i64(kill.received_ms));
        self.line()?.run(statement).await?;
        Ok(())
    }

    async fn append_scores(&mut self, agent_id: &str, scores: &[ScoreSample], keep: u32) -> Result<()> {
        let column = |of: fn(&ScoreSample) -> i64| scores.iter().map(of).collect::<Vec<i64>>();
        // All of them in one statement: each would cost a round trip, while every other writer waits.
        let insert = sqlx::query(
            "INSERT INTO scores (agent_id, at_ms, score, similar_prompts, similar_responses, repeated_tool_calls)
             SELECT $1, at_ms, score, prompts, responses, calls
             FROM unnest($2::bigint[], $3::double precision[], $4::bigint[], $5::bigint[], $6::bigint[])
                 WITH ORDINALITY AS sample (at_ms, score, prompts, responses, calls, place)
             ORDER BY place",
        )
        .bind(text(agent_id))
        .bind(column(|sample| row::to_i64(sample.at_ms)))
        .bind(scores.iter().map(|sample| sample.score).collect::<Vec<f64>>())
        .bind(column(|sample| i64::from(sample.signals.similar_prompts)))
        .bind(column(|sample| i64::from(sample.signals.similar_responses)))
        .bind(column(|sample| i64::from(sample.signals.repeated_tool_calls)));
        self.line()?.run(insert).await?;
        let trim = sqlx::query(
            "DELETE FROM scores WHERE agent_id = $1 AND id <=
                 (SELECT id FROM scores WHERE agent_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)",
        )
        .bind(text(agent_id))
        .bind(i64::from(keep));
        self.line()?.run(trim).await?;
        Ok(())
    }

    async fn add_token(&mut self, token: &Token) -> Result<()> {
        let statement = sqlx::query(
            "INSERT INTO tokens (token_id, name, scope, hash, created_ms, revoked_ms) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(text(&token.token_id))
        .bind(text(&token.name))
        .bind(token.scope.as_str())
        .bind(token.hash.as_slice())
        .bind(row::to_i64(token.created_ms))
        .bind(token.revoked_ms.map(row::to_i64));
        self.line()?.run(statement).await?;
        Ok(())
    }

    async fn revoke_token(&mut self, token_id: &str, now_ms: Millis) -> Result<bool> {
        let statement = sqlx::query("UPDATE tokens SET revoked_ms = $1 WHERE token_id = $2 AND revoked_ms IS NULL")
            .bind(row::to_i64(now_ms))
            .bind(text(token_id));
        Ok(self.line()?.run(statement).await? > 0)
    }

    async fn expire(&mut self, expiry: &Expiry) -> Result<()> {
        let events_before_ms = expiry.events_before_ms;
        for (sql, before_ms) in [
            (
                "DELETE FROM scores WHERE id IN (SELECT id FROM scores WHERE at_ms < $1 LIMIT $2)",
                Some(expiry.scores_before_ms),
            ),
            (
                "DELETE FROM alert_outbox WHERE event_id IN
                     (SELECT event_id FROM alert_outbox WHERE expires_ms <= $1 LIMIT $2)",
                Some(expiry.now_ms),
            ),
            (
                "DELETE FROM alert_deliveries WHERE seq IN
                     (SELECT seq FROM alert_deliveries WHERE created_ms < $1 AND status <> 'pending' LIMIT $2)",
                Some(expiry.deliveries_before_ms),
            ),
            // A report is remembered as long as its event.
            (
                "DELETE FROM kills WHERE kill_id IN (SELECT kill_id FROM kills WHERE received_ms < $1 LIMIT $2)",
                events_before_ms,
            ),
            ("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE at_ms < $1 LIMIT $2)", events_before_ms),
        ] {
            let Some(before_ms) = before_ms else { continue };
            let statement = sqlx::query(sql).bind(row::to_i64(before_ms)).bind(FORGET_AT_MOST);
            self.line()?.run(statement).await?;
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        let payload = std::mem::take(&mut self.payload);
        let line = self.line()?;
        if line.has_failed() {
            // The database would answer that all is well, and roll back.
            return Err(StoreError::Unavailable("a statement of the transaction has failed".to_owned()));
        }
        line.run(sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(payload)).await?;
        let committed = line.run(sqlx::query("COMMIT")).await;
        match committed {
            Ok(_) => self.line = None,
            Err(_) => self.in_doubt.store(true, Ordering::SeqCst),
        }
        committed.map(drop)
    }
}
