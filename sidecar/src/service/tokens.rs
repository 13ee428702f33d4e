//! Bearer tokens, and what each of them allows.
//!
//! A token is 256 random bits, so a plain SHA-256 without salt is enough to store it. The list is kept in memory, so
//! that a poll that finds nothing new touches no table. It is read again every few seconds, in case another process
//! created or revoked a token. A secret is compared with every token, each in constant time.

use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::settings::MAX_NAME;
use super::{Error, Result, Service};
use crate::model::{Scope, Token};
use crate::store::StoreError;

/// The shortest secret that an operator may choose, in characters.
const MIN_FIXED: usize = 20;

/// Who sends a request, as far as the credential tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the credential.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// The actor that events name.
    pub(super) actor: String,
}

impl Identity {
    /// Returns the identity of everybody who knows the password of the dashboard.
    pub(super) fn dashboard() -> Self {
        Self { name: "dashboard".to_owned(), scope: Scope::Operator, actor: "dashboard".to_owned() }
    }

    /// Returns the identity of a person whom a trusted proxy has named.
    pub(crate) fn person(name: &str) -> Self {
        Self { name: name.to_owned(), scope: Scope::Operator, actor: format!("user:{name}") }
    }

    /// Returns the identity of whoever runs a command on the database itself.
    pub(crate) fn command_line() -> Self {
        Self { name: "command line".to_owned(), scope: Scope::Operator, actor: "command_line".to_owned() }
    }

    /// Writes to the log that this identity has done something about who may do what, or about who is told of kills.
    /// Everything else that people do is recorded as an event. `id` says what it was done to, and is never a secret.
    pub(crate) fn log(&self, action: &str, id: &str) {
        tracing::info!(target: "kill_switch::trail", actor = %self.actor, %action, %id, "done");
    }

    /// Whether it may read agents.
    pub fn may_see(&self) -> bool {
        self.scope.grants(Scope::Viewer)
    }

    /// Whether it may change anything.
    pub fn may_change(&self) -> bool {
        self.scope.grants(Scope::Operator)
    }
}

/// A new token with its secret, which is not stored and cannot be read later. It is serialised as the API shows it.
#[derive(Clone, Serialize)]
pub struct NewToken {
    /// What is stored.
    #[serde(flatten)]
    pub token: Token,
    /// The secret that the holder sends. It is never logged.
    pub secret: String,
}

/// The tokens that are currently valid.
#[derive(Default)]
pub(super) struct Keyring {
    stored: RwLock<Arc<Vec<Token>>>,
    /// Tokens from the environment, which are not in the database.
    fixed: RwLock<Arc<Vec<Token>>>,
}

impl Keyring {
    /// Replaces the stored tokens by those from the database that are not revoked.
    pub(super) fn replace(&self, tokens: Vec<Token>) {
        let valid = tokens.into_iter().filter(|token| token.revoked_ms.is_none()).collect();
        *self.stored.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(valid);
    }

    fn fix(&self, token: Token) {
        let mut fixed = self.fixed.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut fixed).push(token);
    }

    /// Returns the identity of the token with this hash.
    pub(super) fn identify_hash(&self, presented: &[u8; 32]) -> Option<Identity> {
        let stored = Arc::clone(&self.stored.read().unwrap_or_else(PoisonError::into_inner));
        let fixed = Arc::clone(&self.fixed.read().unwrap_or_else(PoisonError::into_inner));
        // The whole list is compared, and the position is chosen without a branch, so that the time reveals nothing.
        let mut found = 0_u32;
        for (position, token) in (1..).zip(stored.iter().chain(fixed.iter())) {
            let is_equal: Choice = token.hash.ct_eq(presented);
            found.conditional_assign(&position, is_equal);
        }
        let position = usize::try_from(found).ok()?.checked_sub(1)?;
        let token = stored.iter().chain(fixed.iter()).nth(position)?;
        Some(Identity { name: token.name.clone(), scope: token.scope, actor: format!("token:{}", token.name) })
    }
}

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unavailable(format!("random numbers are not available: {error}")))?;
    Ok(bytes)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn random_hex<const BYTES: usize>() -> Result<String> {
    Ok(hex(&random_bytes::<BYTES>()?))
}

impl Service {
    /// Returns the identity behind a secret, if it is valid.
    pub fn identify(&self, secret: &str) -> Option<Identity> {
        self.keyring.identify_hash(&hash(secret))
    }

    /// Returns every stored token. Revoked tokens are included.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        Ok(self.store.tokens().await?)
    }

    /// Creates a token.
    pub async fn create_token(&self, name: &str, scope: Scope, by: &Identity) -> Result<NewToken> {
        if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(Error::invalid("name", format!("name must be a text of 1 to {MAX_NAME} characters")));
        }
        // The prefix lets scanners for leaked secrets recognise the token.
        let secret = format!("aks_{}", random_hex::<32>()?);
        let token = Token {
            token_id: random_hex::<6>()?,
            name: name.to_owned(),
            scope,
            hash: hash(&secret),
            created_ms: self.now(),
            revoked_ms: None,
        };
        let mut tx = self.store.begin().await?;
        tx.add_token(&token).await?;
        tx.commit().await?;
        let action = match scope {
            Scope::Enforcer => "enforcer_token_created",
            Scope::Viewer => "viewer_token_created",
            Scope::Operator => "operator_token_created",
        };
        by.log(action, &token.token_id);
        self.reload_tokens().await?;
        Ok(NewToken { token, secret })
    }

    /// Revokes a token, with immediate effect.
    pub async fn revoke_token(&self, token_id: &str, by: &Identity) -> Result<()> {
        let mut tx = self.store.begin().await?;
        if !tx.revoke_token(token_id, self.now()).await? {
            return Err(Error::NotFound { what: "valid token", id: token_id.to_owned() });
        }
        tx.commit().await?;
        by.log("token_revoked", token_id);
        self.reload_tokens().await
    }

    /// Reads the tokens again, in case another process has changed them.
    pub async fn reload_tokens(&self) -> Result<()> {
        self.keyring.replace(self.store.tokens().await?);
        Ok(())
    }

    /// Accepts a secret that the operator chose as long as the process runs.
    pub fn fix_token(&self, name: &str, scope: Scope, secret: &str) -> Result<()> {
        if secret.len() < MIN_FIXED || !secret.chars().all(|c| c.is_ascii_graphic()) {
            let detail = format!("{name} must be at least {MIN_FIXED} visible ASCII characters");
            return Err(Error::invalid(name, detail));
        }
        self.keyring.fix(Token {
            token_id: String::new(),
            name: name.to_owned(),
            scope,
            hash: hash(secret),
            created_ms: self.now(),
            revoked_ms: None,
        });
        Ok(())
    }
}
