//! Password and sessions.

use async_trait::async_trait;

use super::PostgresStore;
use crate::model::Millis;
use crate::store::{AccessStore, Result, Session, row};

#[async_trait]
impl AccessStore for PostgresStore {
    async fn password(&self) -> Result<Option<String>> {
        let statement = sqlx::query("SELECT hash FROM dashboard_password");
        let found = self.line().await?.optional(statement).await?;
        found.as_ref().map(|found| row::Columns::text(found, "hash")).transpose()
    }

    async fn set_password(&self, hash: &str) -> Result<()> {
        let mut line = self.line().await?;
        line.run(sqlx::query("DELETE FROM sessions WHERE token_hash IS NULL")).await?;
        let statement = sqlx::query(
            "INSERT INTO dashboard_password (id, hash) VALUES (1, $1)
             ON CONFLICT (id) DO UPDATE SET hash = excluded.hash",
        );
        line.run(statement.bind(hash)).await?;
        Ok(())
    }

    async fn set_first_password(&self, hash: &str) -> Result<bool> {
        let sql = "INSERT INTO dashboard_password (id, hash) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
        Ok(self.line().await?.run(sqlx::query(sql).bind(hash)).await? > 0)
    }

    async fn session(&self, hash: &[u8; 32], now_ms: Millis) -> Result<Option<Session>> {
        let statement = sqlx::query("SELECT token_hash, expires_ms FROM sessions WHERE hash = $1 AND expires_ms > $2")
            .bind(hash.as_slice())
            .bind(row::to_i64(now_ms));
        let found = self.line().await?.optional(statement).await?;
        found.as_ref().map(|found| row::session(found, hash)).transpose()
    }

    async fn open_session(&self, session: &Session, now_ms: Millis) -> Result<()> {
        let mut line = self.line().await?;
        line.run(sqlx::query("DELETE FROM sessions WHERE expires_ms <= $1").bind(row::to_i64(now_ms))).await?;
        let statement = sqlx::query("INSERT INTO sessions (hash, token_hash, expires_ms) VALUES ($1, $2, $3)")
            .bind(session.hash.as_slice())
            .bind(session.token_hash.as_ref().map(<[u8; 32]>::as_slice))
            .bind(row::to_i64(session.expires_ms));
        line.run(statement).await?;
        Ok(())
    }

    async fn end_session(&self, hash: &[u8; 32]) -> Result<()> {
        self.line().await?.run(sqlx::query("DELETE FROM sessions WHERE hash = $1").bind(hash.as_slice())).await?;
        Ok(())
    }
}
