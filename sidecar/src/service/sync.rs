//! Policy sync: filters ask for changes by long polling, and each change has a revision.
//!
//! A poll that is up to date waits for a number in memory and touches no table, so a thousand waiting polls cost a
//! thousand idle tasks. The changes since a revision are read along one index. Pages are cut between revisions, so that
//! no change can be lost between two pages.

use std::sync::PoisonError;
use std::time::Duration;

use agent_kill_switch::wire::SyncAnswer;
use tokio::time::{Instant, sleep_until};

use super::envoys::{EnvoyView, Poll};
use super::{Result, Service, publish};
use crate::store::{Changes, Meta};

/// The number of agents in one answer. They are about a quarter of a megabyte of JSON, which Envoy buffers as a whole.
const PAGE: u32 = 1_000;
/// The longest wait. Proxies in between tend to give up after a minute.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(55);

/// The request of a filter.
#[derive(Clone, Debug, Default)]
pub struct SyncRequest {
    /// The epoch of the database that `since` belongs to. Empty in the first request.
    pub epoch: String,
    /// The revision that the filter has applied.
    pub since: u64,
    /// How long to wait for a change.
    pub wait: Duration,
    /// The name that the Envoy gives itself.
    pub envoy: String,
}

/// The answer to a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Synced {
    /// Something has changed.
    Answer(SyncAnswer),
    /// Nothing has changed within the time.
    Unchanged,
}

impl Service {
    /// Answers as soon as there is a change, when the time is up, or when the sidecar stops.
    pub async fn sync(&self, request: &SyncRequest) -> Result<Synced> {
        let applied = self.knows(request).await?.then_some(request.since);
        let poll = self.envoys.poll(&request.envoy, applied, self.now());
        let Some(since) = applied else {
            return self.page(0, true, &self.read_meta().await?, &poll).await;
        };
        let continues_full = poll.continues_full(since);
        let has_changed = self.changed_since(since, request.wait.min(MAX_WAIT)).await;
        poll.seen(self.now());
        if !has_changed {
            return Ok(Synced::Unchanged);
        }
        let meta = self.read_meta().await?;
        // All pages of a full answer have the same epoch.
        let is_broken_off = continues_full && request.epoch != meta.branch_epoch();
        if self.rev() < since || !meta.knows(&request.epoch, since) || is_broken_off {
            // The database was restored from a backup, or has lost commits, while the poll waited.
            return self.page(0, true, &meta, &poll).await;
        }
        self.page(since, since == 0 || continues_full, &meta, &poll).await
    }

    /// Whether the revision that a filter has applied is one of this database. A table is read only if it is not the one that
    /// most filters have.
    async fn knows(&self, request: &SyncRequest) -> Result<bool> {
        let is_known = |meta: &Meta| meta.knows(&request.epoch, request.since);
        if request.since <= self.rev() && is_known(&self.meta.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(true);
        }
        let meta = self.read_meta().await?;
        if is_known(&meta) && request.since > self.rev() {
            // Another replica has published the revision, and this one has not read it yet.
            self.catch_up().await?;
        }
        Ok(is_known(&meta) && request.since <= self.rev())
    }

    /// Reads the identity of the database again.
    pub(super) async fn read_meta(&self) -> Result<Meta> {
        let meta = self.store.meta().await?;
        self.meta.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&meta);
        Ok(meta)
    }

    /// Returns all known Envoys.
    pub fn envoys(&self) -> Vec<EnvoyView> {
        self.envoys.list(self.now())
    }

    /// Waits for a revision other than `since`. Returns false if the time is up or the sidecar stops.
    async fn changed_since(&self, since: u64, wait: Duration) -> bool {
        let mut rev = self.rev.subscribe();
        let mut stopping = self.stopping.subscribe();
        let deadline = Instant::now() + wait;
        tokio::select! {
            biased;
            changed = rev.wait_for(|rev| *rev != since) => changed.is_ok(),
            _ = stopping.wait_for(|stopping| *stopping) => false,
            () = sleep_until(deadline) => false,
        }
    }

    async fn page(&self, since: u64, full: bool, meta: &Meta, poll: &Poll<'_>) -> Result<Synced> {
        // Read before the page, so that every change up to this revision is in the page or before it.
        let current = self.rev();
        let Changes { agents: changed, last_rev, more } = self.store.changes(since, PAGE).await?;
        let last = last_rev.unwrap_or(since);
        // The page may contain a commit that is not published yet. Its revision must be known here when the filter asks
        // for the changes since then.
        if last_rev.is_some() {
            publish(&self.rev, last);
        }
        let rev = if more { last } else { last.max(current) };
        poll.expect_full_page((full && more).then_some(rev));

        let (mut agents, mut deleted) = (Vec::with_capacity(changed.len()), Vec::new());
        for agent in changed {
            if !agent.deleted {
                agents.push(agent.policy);
            } else if since > 0 {
                // A filter that starts from nothing has nothing to delete.
                deleted.push(agent.policy.agent_id);
            }
        }
        self.add_stopped_sessions(&mut agents).await?;
        // Read after the revision, so a filter that has this revision also knows of the pause that belongs to it.
        let paused_for_ms = self.store.pause().await?.map_or(0, |pause| pause.left_ms(self.now()));
        Ok(Synced::Answer(SyncAnswer { epoch: meta.branch_epoch(), rev, full, agents, deleted, more, paused_for_ms }))
    }
}
