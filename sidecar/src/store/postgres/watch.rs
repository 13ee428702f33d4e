//! How a replica learns of the commits of other replicas.
//!
//! Each transaction sends a notification (`NOTIFY`) with the name of the replica and the number of the commit, and the
//! database passes it on only if the transaction is committed. Notifications that arrive while nobody listens are lost,
//! so a replica that starts to listen assumes that something has changed. A connection can also stop receiving without
//! being broken, behind a pooler or a firewall, so after some seconds of silence the replica reads the number of
//! commits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::{sleep, timeout};

use super::{CONNECTION_TIMEOUT, Postgres};
use crate::store::{Database as _, Result, Statement};

/// The channel of this database that all replicas use.
pub(super) const CHANNEL: &str = "kill_switch";
/// How long to wait for a notification before reading the number of commits.
const POLL: Duration = Duration::from_secs(5);
/// How long to wait before connecting again, and reading the number of commits, while there is no connection.
const RETRY: Duration = Duration::from_secs(1);

/// What this replica has heard so far.
#[derive(Default)]
pub(super) struct Watch {
    listener: Option<PgListener>,
    /// The number of the last known commit.
    commits: i64,
}

/// The outcome of listening for a while.
enum Heard {
    OtherReplica,
    OwnCommit,
    Nothing,
    Disconnected(String),
}

impl Watch {
    /// Completes when another replica may have committed something.
    pub(super) async fn changed(&mut self, database: &Postgres) {
        loop {
            if self.listener.is_none() {
                match connect(database).await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        self.has_moved(database).await;
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot listen for changes of other replicas: polling for them instead");
                        sleep(RETRY).await;
                        if self.has_moved(database).await {
                            return;
                        }
                    }
                }
                continue;
            }
            match self.listen(&database.replica).await {
                Heard::OtherReplica => return,
                // A commit of our own that was left unanswered may be news to us as well.
                Heard::OwnCommit | Heard::Nothing if database.in_doubt.swap(false, Ordering::SeqCst) => return,
                Heard::OwnCommit => {}
                Heard::Disconnected(reason) => {
                    tracing::warn!(reason, "no longer listening for changes of other replicas");
                    self.listener = None;
                }
                Heard::Nothing if self.has_moved(database).await => {
                    tracing::warn!("a notification of another replica was missed: listening on a new connection");
                    self.listener = None;
                    return;
                }
                Heard::Nothing => {}
            }
        }
    }

    async fn listen(&mut self, replica: &str) -> Heard {
        let Some(listener) = &mut self.listener else {
            return Heard::Disconnected("there is no connection".to_owned());
        };
        let notification = match timeout(POLL, listener.try_recv()).await {
            Err(_) => return Heard::Nothing,
            Ok(Ok(Some(notification))) => notification,
            Ok(Ok(None)) => return Heard::Disconnected("the connection was closed".to_owned()),
            Ok(Err(error)) => return Heard::Disconnected(error.to_string()),
        };
        let (sender, number) = notification.payload().split_once(' ').unwrap_or_default();
        self.commits = number.parse().unwrap_or(self.commits).max(self.commits);
        if sender == replica { Heard::OwnCommit } else { Heard::OtherReplica }
    }

    /// Whether the number of commits is not the one that is known here. Returns false if the database does not answer.
    async fn has_moved(&mut self, database: &Postgres) -> bool {
        let Ok(commits) = commits(database).await else { return false };
        let before = std::mem::replace(&mut self.commits, commits);
        // The number is lower than before if the database was replaced by another one.
        commits != before
    }
}

/// Opens a connection that belongs to no pool, so that losing it does not reduce the number of the others.
async fn connect(database: &Postgres) -> Result<PgListener> {
    let options = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
    let pool = options.acquire_timeout(CONNECTION_TIMEOUT).connect_lazy_with(database.options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

async fn commits(database: &Postgres) -> Result<i64> {
    database.reader().await?.row(Statement::new("SELECT commits FROM meta")).await?.integer("commits")
}
