//! Whether the database can be written, tested by writing to it.
//!
//! Anybody may call the probe and each write is synced to disk, so the outcome is kept for a second and concurrent
//! calls share it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::{Instant, timeout};

use super::{Service, publish};
use crate::model::Millis;
use crate::store::{Failure, Store, StoreError};

/// How long an outcome is kept.
const KEPT: Duration = Duration::from_secs(1);
/// How long a write may take before the database counts as not writable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// What people are told if a change, such as a kill, could not be written although the probe can.
const NOT_WRITTEN: &str = "the database could not take a change a moment ago";
/// What people are told if the reason is only for the log.
const NOT_WRITABLE: &str = "the database cannot be written";

/// Why the database cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// What an operator must know, without anything that a stranger must not see.
    pub detail: &'static str,
    /// The error of the database, for the log.
    pub reason: String,
}

/// When the database was last written, and with which outcome.
#[derive(Default)]
struct Latest(Option<(Instant, Result<(), NotReady>)>);

#[derive(Default)]
pub(super) struct Probe(Arc<Mutex<Latest>>);

impl Service {
    /// Returns whether the database can be written, and no change has failed to be written a moment ago.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.writable().await?;
        match self.store.recent_failure() {
            None => Ok(()),
            Some(Failure { is_malformed, reason }) => {
                let detail = if is_malformed { detail(&StoreError::Malformed(String::new())) } else { NOT_WRITTEN };
                Err(NotReady { detail, reason })
            }
        }
    }

    async fn writable(&self) -> Result<(), NotReady> {
        let latest = Arc::clone(&self.readiness.0).lock_owned().await;
        if let Some((at, outcome)) = &latest.0
            && at.elapsed() < KEPT
        {
            return outcome.clone();
        }
        // A task of its own completes the write and keeps its outcome even if the caller goes away. Otherwise callers that
        // do not wait could keep the writer busy.
        let (store, rev, now_ms) = (Arc::clone(&self.store), self.rev.clone(), self.now());
        let probe = tokio::spawn(async move { write(latest, &store, &rev, now_ms).await });
        probe.await.unwrap_or_else(|error| Err(NotReady { detail: NOT_WRITABLE, reason: error.to_string() }))
    }
}

async fn write(
    mut latest: OwnedMutexGuard<Latest>,
    store: &Store,
    rev: &watch::Sender<u64>,
    now_ms: Millis,
) -> Result<(), NotReady> {
    let outcome = match timeout(WRITE_TIMEOUT, store.check_writable(now_ms)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(NotReady { detail: detail(&error), reason: error.to_string() }),
        Err(_) => {
            let reason = format!("the database took longer than {} s to be written", WRITE_TIMEOUT.as_secs());
            Err(NotReady { detail: NOT_WRITABLE, reason })
        }
    };
    // While the file was not in its place, changes may have been committed although their callers were told that they had
    // failed. Filters are told of them now.
    if outcome.is_ok()
        && matches!(latest.0, Some((_, Err(_))))
        && let Ok(meta) = store.meta().await
    {
        publish(rev, meta.rev);
    }
    latest.0 = Some((Instant::now(), outcome.clone()));
    outcome
}

fn detail(error: &StoreError) -> &'static str {
    match error {
        StoreError::Replaced | StoreError::Malformed(_) => error.explanation(),
        _ => NOT_WRITABLE,
    }
}
