//! Whether the database can be written, tested by writing to it.
//!
//! Anybody may call the probe and each write is synced to disk, so the outcome is kept for a second and concurrent
//! calls share it.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Service;

/// How long an outcome is kept.
const KEPT: Duration = Duration::from_secs(1);
/// How long a write may take before the database counts as not writable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The latest outcome.
#[derive(Default)]
pub(super) struct Probe(Mutex<Option<(Instant, Result<(), String>)>>);

impl Service {
    /// Returns whether the database can be written, or a reason for the log.
    pub async fn ready(&self) -> Result<(), String> {
        let mut latest = self.readiness.0.lock().await;
        if let Some((at, outcome)) = latest.as_ref()
            && at.elapsed() < KEPT
        {
            return outcome.clone();
        }
        let outcome = match timeout(WRITE_TIMEOUT, self.store.check_writable(self.now())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the database took longer than {} s to be written", WRITE_TIMEOUT.as_secs())),
        };
        *latest = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
