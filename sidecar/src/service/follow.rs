//! Replicas over one database: taking over what the others commit.
//!
//! What this replica keeps in memory for the sake of waiting polls, the latest revision and the valid tokens, is read
//! again whenever the store says that another process may have changed something. Over SQLite there is no other, and
//! nothing here ever runs.

use std::time::Duration;

use tokio::time::sleep;

use super::{Result, Service, beat, publish};

/// After a failure, long enough not to fill the log.
const PAUSE: Duration = Duration::from_secs(1);

impl Service {
    /// Follows the other replicas, for as long as it is polled.
    pub async fn follow(&self) {
        loop {
            self.store.changed_elsewhere().await;
            while let Err(error) = self.catch_up().await {
                tracing::error!(%error, "changes of other replicas cannot be read");
                sleep(PAUSE).await;
            }
            beat(&self.pulse);
        }
    }

    /// Reads what is kept in memory again, and wakes whoever waited for what is new.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let known = self.rev();
        let meta = self.store.meta().await?;
        if meta.epoch != self.epoch {
            tracing::error!("another database has taken the place of the one that was here: start the sidecar anew");
        }
        // What was known before the database was asked is committed: one that has less was restored, or has lost its
        // latest commits in a failover. Filters that are further must start over.
        if meta.rev < known {
            tracing::error!(known, found = meta.rev, "the database has gone back in time");
            self.rev.send_if_modified(|rev| {
                let is_unchanged = *rev == known;
                if is_unchanged {
                    *rev = meta.rev;
                }
                is_unchanged
            });
        }
        publish(&self.rev, meta.rev);
        self.reload_tokens().await
    }
}
