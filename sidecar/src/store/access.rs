//! The dashboard's password and sessions: the part of the contract that only signing in uses.
//!
//! Every call is a statement of its own: nothing here must be true together with anything else.

use async_trait::async_trait;

use super::Result;
use crate::model::Millis;

/// Somebody who is signed in. The cookie's own value is not kept, only its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of the cookie.
    pub hash: [u8; 32],
    /// SHA-256 of the token that was used to sign in; none for the password.
    pub token_hash: Option<[u8; 32]>,
    /// When it ends by itself.
    pub expires_ms: Millis,
}

/// Password and sessions.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// The password's hash, if one was set.
    async fn password(&self) -> Result<Option<String>>;
    /// Sets the password's hash and ends every session that the old one opened.
    async fn set_password(&self, hash: &str) -> Result<()>;
    /// Sets the password's hash if none was set before; false if one was.
    async fn set_first_password(&self, hash: &str) -> Result<bool>;
    /// A session that has not expired.
    async fn session(&self, hash: &[u8; 32], now_ms: Millis) -> Result<Option<Session>>;
    /// Opens a session, and forgets those that have expired.
    async fn open_session(&self, session: &Session, now_ms: Millis) -> Result<()>;
    /// Ends a session.
    async fn end_session(&self, hash: &[u8; 32]) -> Result<()>;
}
