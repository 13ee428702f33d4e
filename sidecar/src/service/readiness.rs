//! Whether the database can be written, found out by writing it.
//!
//! The probe is open to everyone and each write is synced to disk, so its outcome is kept for a second and concurrent
//! probes share it.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Service;

/// How long an outcome is good for.
const FRESH: Duration = Duration::from_secs(1);
/// A database that takes longer is not one to rely on.
const PATIENCE: Duration = Duration::from_secs(2);

/// The latest outcome.
#[derive(Default)]
pub(super) struct Probe(Mutex<Option<(Instant, Result<(), String>)>>);

impl Service {
    /// Ok, or why not, for the log.
    pub async fn ready(&self) -> Result<(), String> {
        let mut latest = self.readiness.0.lock().await;
        if let Some((at, outcome)) = latest.as_ref()
            && at.elapsed() < FRESH
        {
            return outcome.clone();
        }
        let outcome = match timeout(PATIENCE, self.store.check_writable(self.now())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the database took longer than {} s to be written", PATIENCE.as_secs())),
        };
        *latest = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
