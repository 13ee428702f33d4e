//! Following the commits of other replicas that share the database.
//!
//! For the sake of waiting polls, each replica keeps the latest revision and the valid tokens in memory. Both are read
//! again whenever the store says that another process may have changed something. With SQLite there is no other
//! process, and nothing here ever runs.

use std::time::Duration;

use tokio::time::sleep;

use super::{Result, Service, publish};

/// How long to wait after a failure, so that the log does not fill up.
const PAUSE: Duration = Duration::from_secs(1);

impl Service {
    /// Follows the other replicas and never returns.
    pub async fn follow(&self) {
        loop {
            self.store.changed_elsewhere().await;
            while let Err(error) = self.catch_up().await {
                tracing::error!(%error, "changes of other replicas cannot be read");
                sleep(PAUSE).await;
            }
            self.beat();
        }
    }

    /// Reads revision and tokens again, and wakes the polls that wait for a new revision.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let known = self.rev();
        let meta = self.read_meta().await?;
        // The revision that was known before is committed. A database with a lower one was restored from a backup, or
        // has lost its latest commits in a failover, and filters with a higher revision must start over.
        if meta.rev < known {
            tracing::error!(known, found = meta.rev, "the database has gone back in time");
            self.store.begin_branch();
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
