//! Password and sessions.

use async_trait::async_trait;

use super::SqliteStore;
use crate::model::Millis;
use crate::store::{AccessStore, Result, Session, row};

#[async_trait]
impl AccessStore for SqliteStore {
    async fn password(&self) -> Result<Option<String>> {
        Ok(sqlx::query_scalar("SELECT hash FROM dashboard_password").fetch_optional(&self.reader).await?)
    }

    async fn set_password(&self, hash: &str) -> Result<()> {
        sqlx::query("DELETE FROM sessions WHERE token_hash IS NULL").execute(&self.writer).await?;
        sqlx::query(
            "INSERT INTO dashboard_password (id, hash) VALUES (1, ?)
             ON CONFLICT (id) DO UPDATE SET hash = excluded.hash",
        )
        .bind(hash)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    async fn set_first_password(&self, hash: &str) -> Result<bool> {
        let done = sqlx::query("INSERT INTO dashboard_password (id, hash) VALUES (1, ?) ON CONFLICT (id) DO NOTHING")
            .bind(hash)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    async fn session(&self, hash: &[u8; 32], now_ms: Millis) -> Result<Option<Session>> {
        let found = sqlx::query("SELECT token_hash, expires_ms FROM sessions WHERE hash = ? AND expires_ms > ?")
            .bind(hash.as_slice())
            .bind(row::to_i64(now_ms))
            .fetch_optional(&self.reader)
            .await?;
        found.as_ref().map(|found| row::session(found, hash)).transpose()
    }

    async fn open_session(&self, session: &Session, now_ms: Millis) -> Result<()> {
        sqlx::query("DELETE FROM sessions WHERE expires_ms <= ?")
            .bind(row::to_i64(now_ms))
            .execute(&self.writer)
            .await?;
        sqlx::query("INSERT INTO sessions (hash, token_hash, expires_ms) VALUES (?, ?, ?)")
            .bind(session.hash.as_slice())
            .bind(session.token_hash.as_ref().map(<[u8; 32]>::as_slice))
            .bind(row::to_i64(session.expires_ms))
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    async fn end_session(&self, hash: &[u8; 32]) -> Result<()> {
        sqlx::query("DELETE FROM sessions WHERE hash = ?").bind(hash.as_slice()).execute(&self.writer).await?;
        Ok(())
    }
}
