//! How a replica hears of what the others commit.
//!
//! Each transaction notifies (`NOTIFY`), with the replica's name and the number of the commit, and the database passes
//! it on only if the transaction is committed. A notification is lost while nobody listens, so that whoever begins to
//! listen takes it that something has changed. And since a connection can be deaf without being broken, behind a pooler
//! or a firewall that forgot it, silence is not trusted either: after some seconds of it the number of commits is
//! looked up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::{sleep, timeout};

use super::{PostgresStore, TURN_TIMEOUT};
use crate::store::{Result, StoreError};

/// The channel of this database that all replicas use.
pub(super) const CHANNEL: &str = "kill_switch";
/// How long silence is trusted.
const POLL: Duration = Duration::from_secs(5);
/// How often to look, and to try to listen again, while there is no connection to listen on.
const RETRY: Duration = Duration::from_secs(1);

/// What this replica has heard so far.
#[derive(Default)]
pub(super) struct Watch {
    listener: Option<PgListener>,
    /// The last commit known of.
    commits: i64,
}

/// What came of listening for a while.
enum Heard {
    Others,
    Ourselves,
    Nothing,
    Lost(String),
}

impl Watch {
    /// Completes when another replica may have committed something.
    pub(super) async fn changed(&mut self, store: &PostgresStore) {
        loop {
            if self.listener.is_none() {
                match connect(store).await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        self.has_moved(store).await;
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot listen for changes of other replicas: looking for them instead");
                        sleep(RETRY).await;
                        if self.has_moved(store).await {
                            return;
                        }
                    }
                }
                continue;
            }
            match self.listen(&store.replica).await {
                Heard::Others => return,
                // One of our own that we were not told the end of may be news to us too.
                Heard::Ourselves | Heard::Nothing if store.in_doubt.swap(false, Ordering::SeqCst) => return,
                Heard::Ourselves => {}
                Heard::Lost(reason) => {
                    tracing::warn!(reason, "no longer listening for changes of other replicas");
                    self.listener = None;
                }
                Heard::Nothing if self.has_moved(store).await => {
                    tracing::warn!("a change of another replica was not heard: listening anew");
                    self.listener = None;
                    return;
                }
                Heard::Nothing => {}
            }
        }
    }

    async fn listen(&mut self, replica: &str) -> Heard {
        let Some(listener) = &mut self.listener else { return Heard::Lost("there is no connection".to_owned()) };
        let notification = match timeout(POLL, listener.try_recv()).await {
            Err(_) => return Heard::Nothing,
            Ok(Ok(Some(notification))) => notification,
            Ok(Ok(None)) => return Heard::Lost("the connection was closed".to_owned()),
            Ok(Err(error)) => return Heard::Lost(error.to_string()),
        };
        let (sender, number) = notification.payload().split_once(' ').unwrap_or_default();
        self.commits = number.parse().unwrap_or(self.commits).max(self.commits);
        if sender == replica { Heard::Ourselves } else { Heard::Others }
    }

    /// Whether there were commits that nobody told of. No, while the database cannot be asked.
    async fn has_moved(&mut self, store: &PostgresStore) -> bool {
        let Ok(commits) = commits(store).await else { return false };
        let before = std::mem::replace(&mut self.commits, commits);
        // Fewer than before: another database has taken the place of the one that was here.
        commits != before
    }
}

/// What a transaction tells the others.
pub(super) fn payload(replica: &str, number: i64) -> String {
    format!("{replica} {number}")
}

/// A name that no other replica has.
pub(super) fn random_name() -> Result<String> {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unavailable(format!("no random numbers to be had: {error}")))?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// A connection of its own, so that one that is lost takes no place among the others.
async fn connect(store: &PostgresStore) -> Result<PgListener> {
    let options = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = options.acquire_timeout(TURN_TIMEOUT).connect_lazy_with(store.options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

async fn commits(store: &PostgresStore) -> Result<i64> {
    let found = store.line().await?.row(sqlx::query("SELECT commits FROM meta")).await?;
    Ok(found.try_get("commits")?)
}
