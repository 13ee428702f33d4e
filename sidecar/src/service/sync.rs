//! Policy on its way to the filters: a long poll over revisions.
//!
//! A poll that is up to date waits on a number in memory and touches no table; a thousand of them are a thousand parked
//! tasks. What a poll missed is one walk along the index of revisions. Pages are cut between revisions, so that nothing
//! that changes meanwhile can fall between two of them.

use std::time::Duration;

use agent_kill_switch::wire::SyncAnswer;
use tokio::time::{Instant, sleep_until};

use super::envoys::{EnvoyView, Poll};
use super::{Result, Service, publish};

/// Agents in one answer: about a quarter of a megabyte of JSON, which Envoy buffers as a whole.
const PAGE: u32 = 1_000;
/// The longest wait: proxies in between tend to give up after a minute.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(55);

/// What a filter asks.
#[derive(Clone, Debug, Default)]
pub struct SyncRequest {
    /// The database that its cursor belongs to; empty at first.
    pub epoch: String,
    /// The revision that it has applied.
    pub since: u64,
    /// How long it is willing to wait for a change.
    pub wait: Duration,
    /// What it calls itself.
    pub envoy: String,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Synced {
    /// This is new.
    Answer(SyncAnswer),
    /// Nothing is, and the time is up.
    Unchanged,
}

impl Service {
    /// Answers as soon as there is something to tell, or when the time is up, or when the sidecar stops.
    pub async fn sync(&self, request: &SyncRequest) -> Result<Synced> {
        if request.epoch == self.epoch && request.since > self.rev() {
            // From the future, or from another replica that was faster to hear of it.
            self.catch_up().await?;
        }
        let is_known = request.epoch == self.epoch && request.since <= self.rev();
        let applied = is_known.then_some(request.since);
        let poll = self.envoys.poll(&request.envoy, applied, self.now());
        let Some(since) = applied else {
            return self.page(0, true, &poll).await;
        };
        let continues_full = poll.continues_full(since);
        let is_news = self.changed_since(since, request.wait.min(MAX_WAIT)).await;
        poll.seen(self.now());
        if !is_news {
            return Ok(Synced::Unchanged);
        }
        if self.rev() < since {
            // The database has gone back in time while the poll waited.
            return self.page(0, true, &poll).await;
        }
        self.page(since, since == 0 || continues_full, &poll).await
    }

    /// The Envoys that poll here.
    pub fn envoys(&self) -> Vec<EnvoyView> {
        self.envoys.list(self.now())
    }

    /// Waits for a revision other than `since`.
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

    async fn page(&self, since: u64, full: bool, poll: &Poll<'_>) -> Result<Synced> {
        // Read before the page is: everything up to here is in it or before it.
        let current = self.rev();
        let mut rows = self.store.changes(since, PAGE + 1).await?;
        let more = rows.len() > PAGE as usize;
        rows.truncate(PAGE as usize);
        let last = rows.last().map_or(since, |agent| agent.rev);
        // A commit may be seen here before its own task says so. Whoever got it must not be taken for a stranger when it
        // asks from there.
        if !rows.is_empty() {
            publish(&self.rev, last);
        }
        let rev = if more { last } else { last.max(current) };
        poll.expect_full_page((full && more).then_some(rev));

        let (mut agents, mut deleted) = (Vec::with_capacity(rows.len()), Vec::new());
        for agent in rows {
            match agent.deleted {
                false => agents.push(agent.policy),
                // Whoever starts from nothing has nothing to delete.
                true if since == 0 => {}
                true => deleted.push(agent.policy.agent_id),
            }
        }
        Ok(Synced::Answer(SyncAnswer { epoch: self.epoch.clone(), rev, full, agents, deleted, more }))
    }
}
