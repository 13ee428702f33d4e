//! Signing in to the dashboard: one password, or a token, and sessions that end on the server.
//!
//! The password is hashed slowly (argon2id) and checked beside the other work, a few at a time: it is the one thing
//! here that a stranger could make expensive. A session is 256 random bits in a cookie, of which only the hash is kept;
//! one that was opened with a token is over when the token is.

use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use tokio::task::spawn_blocking;

use super::tokens::{Identity, hash, random_bytes, random_hex};
use super::{Error, Result, Service, millis};
use crate::store::{Session, StoreError};

/// How long somebody stays signed in.
const SESSION: Duration = Duration::from_secs(7 * 24 * 3600);
/// The shortest password that an operator may choose.
const MIN_PASSWORD: usize = 12;

impl Service {
    /// Whether a password was ever set.
    pub async fn has_password(&self) -> Result<bool> {
        Ok(self.store.password().await?.is_some())
    }

    /// Sets the password. Whoever signed in with another one is signed out.
    pub async fn set_password(&self, password: &str) -> Result<()> {
        if password.chars().count() < MIN_PASSWORD {
            let detail = format!("the dashboard's password must have at least {MIN_PASSWORD} characters");
            return Err(Error::invalid("password", detail));
        }
        if self.is_password(password).await? {
            return Ok(());
        }
        let hashed = slowly_hashed(password).await?;
        Ok(self.store.set_password(&hashed).await?)
    }

    /// Makes a password up, sets it and returns it: the only moment at which it is known. Nothing, if there is one by
    /// now: another replica may have started at the same time.
    pub async fn make_password(&self) -> Result<Option<String>> {
        let hex = random_hex::<10>()?;
        let groups: Vec<_> = (0..4).filter_map(|group| hex.get(group * 5..group * 5 + 5)).collect();
        let password = groups.join("-");
        let is_ours = self.store.set_first_password(&slowly_hashed(&password).await?).await?;
        Ok(is_ours.then_some(password))
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

    /// Signs in with the password or a token; the cookie's value, or nothing.
    pub async fn sign_in(&self, secret: &str) -> Result<Option<String>> {
        let token_hash = match self.identify(secret) {
            Some(who) if who.may_see() => Some(hash(secret)),
            // A filter's token opens no dashboard.
            Some(_) => return Ok(None),
            None if self.is_password(secret).await? => None,
            None => return Ok(None),
        };
        let cookie = random_hex::<32>()?;
        let now_ms = self.now();
        let session = Session { hash: hash(&cookie), token_hash, expires_ms: now_ms.saturating_add(millis(SESSION)) };
        self.store.open_session(&session, now_ms).await?;
        Ok(Some(cookie))
    }

    /// Who holds this cookie, if it still means anything.
    pub async fn session(&self, cookie: &str) -> Result<Option<Identity>> {
        let Some(session) = self.store.session(&hash(cookie), self.now()).await? else { return Ok(None) };
        Ok(match session.token_hash {
            None => Some(Identity::dashboard()),
            Some(token_hash) => self.keyring.identify_hash(&token_hash).filter(Identity::may_see),
        })
    }

    /// Ends a session.
    pub async fn sign_out(&self, cookie: &str) -> Result<()> {
        Ok(self.store.end_session(&hash(cookie)).await?)
    }

    /// Something that nobody can guess, for whoever is not signed in yet.
    pub fn random_id(&self) -> Result<String> {
        random_hex::<16>()
    }

    /// What forms of this cookie's holder must carry. Derived, so that nothing more need be kept; one way, so that a
    /// page does not give the cookie away.
    pub fn form_key(&self, cookie: &str) -> String {
        let derived = hash(&format!("form:{cookie}"));
        derived.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

async fn slowly_hashed(password: &str) -> Result<String> {
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
