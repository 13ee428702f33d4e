//! The tables of tokens, of the dashboard's password and of its sessions.

use super::row::readable;
use super::{Result, Row, Statement, Store, Tx};
use crate::model::{Millis, Scope, Token};

/// A session of the dashboard. The value of its cookie is not stored, only the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of the cookie.
    pub hash: [u8; 32],
    /// SHA-256 of the token that was used to sign in. `None` if the password was used.
    pub token_hash: Option<[u8; 32]>,
    /// When the session ends by itself.
    pub expires_ms: Millis,
}

fn token(row: &Row) -> Result<Token> {
    Ok(Token {
        token_id: row.text("token_id")?,
        name: row.text("name")?,
        scope: row.word("scope", Scope::parse)?,
        hash: row.hash("hash")?,
        created_ms: row.integer("created_ms")?,
        revoked_ms: row.optional_integer("revoked_ms")?,
    })
}

fn session(row: &Row) -> Result<Session> {
    Ok(Session {
        hash: row.hash("hash")?,
        token_hash: row.optional_hash("token_hash")?,
        expires_ms: row.integer("expires_ms")?,
    })
}

impl Store {
    /// Returns every token, oldest first. Revoked tokens are included.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        let statement = Statement::new(
            "SELECT token_id, name, scope, hash, created_ms, revoked_ms FROM tokens ORDER BY created_ms, name, token_id",
        );
        readable("tokens", "token_id", &self.database.reader().await?.rows(statement).await?, token)
    }

    /// Returns the hash of the password, if one was set.
    pub async fn password(&self) -> Result<Option<String>> {
        let statement = Statement::new("SELECT hash FROM dashboard_password");
        self.database.reader().await?.optional_row(statement).await?.map(|row| row.text("hash")).transpose()
    }

    /// Sets the hash of the password and ends every session that was opened with the old password.
    pub async fn set_password(&self, hash: &str) -> Result<()> {
        let mut writer = self.database.writer().await?;
        writer.run(Statement::new("DELETE FROM sessions WHERE token_hash IS NULL")).await?;
        let statement = Statement::new(
            "INSERT INTO dashboard_password (id, hash) VALUES (1, $1)
             ON CONFLICT (id) DO UPDATE SET hash = excluded.hash",
        );
        writer.run(statement.bind(hash)).await.map(drop)
    }

    /// Sets the hash of the password if there is none. Returns false if there is one.
    pub async fn set_first_password(&self, hash: &str) -> Result<bool> {
        let sql = "INSERT INTO dashboard_password (id, hash) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
        Ok(self.database.writer().await?.run(Statement::new(sql).bind(hash)).await? > 0)
    }

    /// Returns a session that has not expired.
    pub async fn session(&self, hash: &[u8; 32], now_ms: Millis) -> Result<Option<Session>> {
        let sql = "SELECT hash, token_hash, expires_ms FROM sessions WHERE hash = $1 AND expires_ms > $2";
        let statement = Statement::new(sql).bind(hash.as_slice()).bind(now_ms);
        self.database.reader().await?.optional_row(statement).await?.as_ref().map(session).transpose()
    }

    /// Opens a session, and deletes those that have expired.
    pub async fn open_session(&self, session: &Session, now_ms: Millis) -> Result<()> {
        let mut writer = self.database.writer().await?;
        writer.run(Statement::new("DELETE FROM sessions WHERE expires_ms <= $1").bind(now_ms)).await?;
        let statement = Statement::new("INSERT INTO sessions (hash, token_hash, expires_ms) VALUES ($1, $2, $3)")
            .bind(session.hash.as_slice())
            .bind(session.token_hash.as_ref().map(<[u8; 32]>::as_slice))
            .bind(session.expires_ms);
        writer.run(statement).await.map(drop)
    }

    /// Ends a session.
    pub async fn end_session(&self, hash: &[u8; 32]) -> Result<()> {
        let statement = Statement::new("DELETE FROM sessions WHERE hash = $1").bind(hash.as_slice());
        self.database.writer().await?.run(statement).await.map(drop)
    }
}

impl Tx {
    /// Adds a token.
    pub async fn add_token(&mut self, token: &Token) -> Result<()> {
        let statement = Statement::new(
            "INSERT INTO tokens (token_id, name, scope, hash, created_ms, revoked_ms) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(&token.token_id)
        .bind(&token.name)
        .bind(token.scope.as_str())
        .bind(token.hash.as_slice())
        .bind(token.created_ms)
        .bind(token.revoked_ms);
        self.connection().run(statement).await.map(drop)
    }

    /// Revokes a token. Returns false if there is no such token, or it was revoked before.
    pub async fn revoke_token(&mut self, token_id: &str, now_ms: Millis) -> Result<bool> {
        let sql = "UPDATE tokens SET revoked_ms = $1 WHERE token_id = $2 AND revoked_ms IS NULL";
        Ok(self.connection().run(Statement::new(sql).bind(now_ms).bind(token_id)).await? > 0)
    }
}
