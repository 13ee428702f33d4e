//! Signing in to the dashboard with the password or a token, and the sessions that result.
//!
//! The password is hashed with argon2id, which is slow on purpose. It is the one operation here that a stranger could
//! make expensive, so it runs on other threads and only a few at a time. A session is 256 random bits in a cookie, and
//! only their hash is stored. A session that was opened with a token ends with the token.

use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use tokio::task::spawn_blocking;

use super::tokens::{Identity, hash, hex, random_bytes, random_hex};
use super::{Error, Result, Service, millis};
use crate::clock::CLOCK_TOLERANCE_MS;
use crate::store::{Session, StoreError};

/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(7 * 24 * 3600);
/// The shortest password that an operator may choose.
const MIN_PASSWORD: usize = 12;

impl Service {
    /// Whether a password was set.
    pub async fn has_password(&self) -> Result<bool> {
        Ok(self.store.password().await?.is_some())
    }

    /// Sets the password. Sessions that were opened with another password end.
    pub async fn set_password(&self, password: &str) -> Result<()> {
        if password.chars().count() < MIN_PASSWORD {
            let detail = format!("the dashboard's password must have at least {MIN_PASSWORD} characters");
            return Err(Error::invalid("password", detail));
        }
        if self.is_password(password).await? {
            return Ok(());
        }
        let hashed = hash_password(password).await?;
        Ok(self.store.set_password(&hashed).await?)
    }

    /// Generates a password, sets it and returns it. It is not stored, so it cannot be read later. Returns `None` if a
    /// password was set in the meantime, because another replica may start at the same time.
    pub async fn make_password(&self) -> Result<Option<String>> {
        let hex = random_hex::<10>()?;
        let groups: Vec<_> = (0..4).filter_map(|group| hex.get(group * 5..group * 5 + 5)).collect();
        let password = groups.join("-");
        let is_set = self.store.set_first_password(&hash_password(&password).await?).await?;
        Ok(is_set.then_some(password))
    }

    async fn is_password(&self, password: &str) -> Result<bool> {
        let Some(kept) = self.store.password().await? else { return Ok(false) };
        let password = password.to_owned();
        let _turn = self.hashing.acquire().await.map_err(|error| unavailable(error.to_string()))?;
        let checked = spawn_blocking(move || {
            let kept = PasswordHash::new(&kept);
            kept.is_ok_and(|kept| Argon2::default().verify_password(password.as_bytes(), &kept).is_ok())
        });
        checked.await.map_err(|error| unavailable(error.to_string()))
    }

    /// Signs in with a token. Returns the value of the cookie, or `None` if the token is not valid here: that of a filter
    /// does not give access to the dashboard.
    pub async fn sign_in_with_token(&self, secret: &str) -> Result<Option<String>> {
        match self.identify(secret) {
            Some(who) if who.may_see() => self.open_session(Some(hash(secret))).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Signs in with the password. Returns the value of the cookie, or `None` if the password is wrong. The caller must
    /// limit how often this can be tried.
    pub async fn sign_in_with_password(&self, secret: &str) -> Result<Option<String>> {
        if self.is_password(secret).await? { self.open_session(None).await.map(Some) } else { Ok(None) }
    }

    /// Opens a session, which ends with the token if it was opened with one. Returns the value of the cookie.
    async fn open_session(&self, token_hash: Option<[u8; 32]>) -> Result<String> {
        let cookie = random_hex::<32>()?;
        let now_ms = self.now();
        let session = Session { hash: hash(&cookie), token_hash, expires_ms: now_ms.saturating_add(millis(SESSION)) };
        self.store.open_session(&session, now_ms).await?;
        Ok(cookie)
    }

    /// Returns the identity behind a cookie, if its session is still valid.
    pub async fn session(&self, cookie: &str) -> Result<Option<Identity>> {
        let now_ms = self.now();
        let session = self.store.session(&hash(cookie), now_ms).await?;
        // A session that would last longer than any can is from before the clock was set back, and has expired.
        let latest_ms = now_ms.saturating_add(millis(SESSION)).saturating_add(CLOCK_TOLERANCE_MS);
        let Some(session) = session.filter(|session| session.expires_ms <= latest_ms) else { return Ok(None) };
        Ok(match session.token_hash {
            None => Some(Identity::dashboard()),
            Some(token_hash) => self.keyring.identify_hash(&token_hash).filter(Identity::may_see),
        })
    }

    /// Ends a session.
    pub async fn sign_out(&self, cookie: &str) -> Result<()> {
        Ok(self.store.end_session(&hash(cookie)).await?)
    }

    /// Returns a random id for a visitor who is not signed in yet.
    pub fn random_id(&self) -> Result<String> {
        random_hex::<16>()
    }

    /// Returns the key that forms must contain for this cookie. It is derived from the cookie, so nothing more need be
    /// stored, and the cookie cannot be computed from it.
    pub fn form_key(&self, cookie: &str) -> String {
        let mut derived = hex(&hash(&format!("form:{cookie}")));
        derived.truncate(32);
        derived
    }

    /// Like [`form_key`](Self::form_key), for a person whom a trusted proxy has named and who has no cookie. The key is
    /// derived from the stored hash of the password, which all replicas have and nobody else knows.
    pub async fn form_key_of_person(&self, name: &str) -> Result<String> {
        let stored = self.store.password().await?.ok_or_else(|| unavailable("no password is set".to_owned()))?;
        Ok(self.form_key(&format!("{stored}:{name}")))
    }
}

async fn hash_password(password: &str) -> Result<String> {
    let salt = random_bytes::<16>()?;
    let password = password.to_owned();
    let hashed = spawn_blocking(move || {
        let salt = SaltString::encode_b64(&salt).map_err(|error| error.to_string())?;
        let hashed = Argon2::default().hash_password(password.as_bytes(), &salt);
        hashed.map(|hashed| hashed.to_string()).map_err(|error| error.to_string())
    });
    hashed.await.map_err(|error| unavailable(error.to_string()))?.map_err(unavailable)
}

fn unavailable(reason: String) -> Error {
    StoreError::Unavailable(format!("passwords cannot be hashed: {reason}")).into()
}
