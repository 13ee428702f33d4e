//! Bearer tokens: who may ask for what.
//!
//! A token is 256 random bits, so its SHA-256 needs no salt and no slow hash. The list is held in memory, since a poll
//! that finds nothing new must touch no table; it is read again every few seconds, for tokens that another process
//! created or revoked. A presented token is compared with every one that there is, each in constant time.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::settings::MAX_NAME;
use super::{Error, Result, Service};
use crate::model::{Scope, Token};
use crate::store::StoreError;

/// The shortest secret that an operator may fix by hand.
const MIN_FIXED: usize = 20;

/// Who asks, as far as a token can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The token's name.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    via: Via,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Via {
    Token,
    Password,
}

impl Identity {
    /// Whoever knows the dashboard's password.
    pub(super) fn dashboard() -> Self {
        Self { name: "dashboard".to_owned(), scope: Scope::Operator, via: Via::Password }
    }

    /// How events name whoever used this credential.
    pub(super) fn actor(&self) -> String {
        match self.via {
            Via::Token => format!("token:{}", self.name),
            Via::Password => self.name.clone(),
        }
    }

    /// Whether it may look at agents.
    pub fn may_see(&self) -> bool {
        self.scope.grants(Scope::Viewer)
    }

    /// Whether it may change anything.
    pub fn may_change(&self) -> bool {
        self.scope.grants(Scope::Operator)
    }
}

/// A token that was just made: the only moment at which its secret is known.
#[derive(Clone)]
pub struct NewToken {
    /// What is stored.
    pub token: Token,
    /// What its holder presents. Never logged, never stored.
    pub secret: String,
}

/// The tokens that are valid now.
#[derive(Default)]
pub(super) struct Keyring {
    stored: RwLock<Arc<Vec<Token>>>,
    /// Given by environment; in no database.
    fixed: RwLock<Arc<Vec<Token>>>,
}

impl Keyring {
    /// Takes what the database holds.
    pub(super) fn replace(&self, tokens: Vec<Token>) {
        let valid = tokens.into_iter().filter(|token| token.revoked_ms.is_none()).collect();
        *self.stored.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(valid);
    }

    fn fix(&self, token: Token) {
        let mut fixed = self.fixed.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut fixed).push(token);
    }

    fn identify(&self, secret: &str) -> Option<Identity> {
        self.identify_hash(&hash(secret))
    }

    /// Who has the secret with this hash.
    pub(super) fn identify_hash(&self, presented: &[u8; 32]) -> Option<Identity> {
        let stored = Arc::clone(&self.stored.read().unwrap_or_else(PoisonError::into_inner));
        let fixed = Arc::clone(&self.fixed.read().unwrap_or_else(PoisonError::into_inner));
        // The whole list is walked and the position chosen without a branch: the time taken tells nothing.
        let mut found = 0_u32;
        for (position, token) in (1..).zip(stored.iter().chain(fixed.iter())) {
            let is_it: Choice = token.hash.ct_eq(presented);
            found.conditional_assign(&position, is_it);
        }
        let position = usize::try_from(found).ok()?.checked_sub(1)?;
        let token = stored.iter().chain(fixed.iter()).nth(position)?;
        Some(Identity { name: token.name.clone(), scope: token.scope, via: Via::Token })
    }
}

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unavailable(format!("no random numbers to be had: {error}")))?;
    Ok(bytes)
}

pub(super) fn random_hex<const BYTES: usize>() -> Result<String> {
    let bytes = random_bytes::<BYTES>()?;
    Ok(bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

impl Service {
    /// Who presents this secret, if anybody known.
    pub fn identify(&self, secret: &str) -> Option<Identity> {
        self.keyring.identify(secret)
    }

    /// Every stored token, revoked ones too.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        Ok(self.store.tokens().await?)
    }

    /// Makes a token.
    pub async fn create_token(&self, name: &str, scope: Scope) -> Result<NewToken> {
        if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(Error::invalid("name", format!("name must be a text of 1 to {MAX_NAME} characters")));
        }
        // The prefix lets scanners for leaked secrets recognise it.
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
        self.reload_tokens().await?;
        Ok(NewToken { token, secret })
    }

    /// Ends a token's validity, at once.
    pub async fn revoke_token(&self, token_id: &str) -> Result<()> {
        let mut tx = self.store.begin().await?;
        if !tx.revoke_token(token_id, self.now()).await? {
            return Err(Error::NotFound { what: "valid token", id: token_id.to_owned() });
        }
        tx.commit().await?;
        self.reload_tokens().await
    }

    /// Reads the list again, for what other processes changed.
    pub async fn reload_tokens(&self) -> Result<()> {
        self.keyring.replace(self.store.tokens().await?);
        Ok(())
    }

    /// Accepts a secret that the operator chose, for as long as the process runs.
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
