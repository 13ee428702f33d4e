//! The rules: what may be set, what a kill does, who is told of a change.
//!
//! No axum, no sqlx, no sockets: everything here can be called by the API, the dashboard and tests alike. Each change
//! is one transaction of the store; waiting polls are woken only after it is committed, so that nobody hears of a state
//! that a crash could take back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::clock::Clock;
use crate::model::{Event, Millis, NewEvent};
use crate::store::{EventQuery, Store, StoreError, Tx};

mod access;
mod agents;
mod envoys;
mod error;
mod follow;
mod kills;
mod notices;
mod observations;
mod preview;
mod readiness;
mod rules;
mod settings;
mod sync;
mod tokens;

pub use agents::{Caller, Note, Precondition};
pub use envoys::EnvoyView;
pub(crate) use envoys::SHARE;
pub use error::{Error, Result};
pub use kills::KillReceipt;
pub use notices::{Attempt, Next};
pub use observations::ObservationReceipt;
pub(crate) use observations::WRITE_INTERVAL;
pub use preview::Preview;
pub use rules::{DEFAULT_COOLDOWN_SECONDS, MAX_COOLDOWN_SECONDS, RuleChange};
pub use settings::{Change, Names};
pub use sync::{SyncRequest, Synced};
pub use tokens::{Identity, NewToken};

/// How long an event waits for somebody to be told of it before it is old news.
const ALERT_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// How long the history of notices is kept.
const DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is kept, and how much of it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Agents that traffic alone may create: invented ids cannot grow the database, or the filters' memory, past this.
    pub max_discovered_agents: u64,
    /// Scores kept of each agent.
    pub scores_per_agent: u32,
    /// How long scores are kept.
    pub score_retention: Duration,
    /// How long events are kept; for ever unless set.
    pub event_retention: Option<Duration>,
    /// How long the delivery of an alert is tried.
    pub alert_give_up_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_discovered_agents: 10_000,
            scores_per_agent: 1_000,
            score_retention: Duration::from_secs(7 * 24 * 3600),
            event_retention: None,
            alert_give_up_after: ALERT_LIFETIME,
        }
    }
}

/// The sidecar's rules over a store.
pub struct Service {
    store: Arc<Store>,
    clock: Clock,
    limits: Limits,
    epoch: String,
    rev: watch::Sender<u64>,
    stopping: watch::Sender<bool>,
    /// Beats whenever something that a person may be looking at has changed.
    pulse: watch::Sender<u64>,
    envoys: envoys::Registry,
    observations: observations::Collector,
    keyring: tokens::Keyring,
    readiness: readiness::Probe,
    /// Passwords are checked two at a time: each takes a processor and 19 MB for a moment.
    hashing: Semaphore,
}

impl Service {
    /// Starts over what the store holds.
    pub async fn new(store: Arc<Store>, clock: Clock, limits: Limits) -> Result<Self> {
        let meta = store.meta().await?;
        let keyring = tokens::Keyring::default();
        keyring.replace(store.tokens().await?);
        Ok(Self {
            store,
            clock,
            limits,
            epoch: meta.epoch,
            rev: watch::Sender::new(meta.rev),
            stopping: watch::Sender::new(false),
            pulse: watch::Sender::new(0),
            envoys: envoys::Registry::default(),
            observations: observations::Collector::default(),
            keyring,
            readiness: readiness::Probe::default(),
            hashing: Semaphore::new(2),
        })
    }

    /// Ends every waiting poll, now and from now on.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether the sidecar is about to end.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Beats whenever something that a person may be looking at has changed: agents, scores, events, notices.
    pub fn heartbeat(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }

    fn pulse(&self) {
        beat(&self.pulse);
    }

    /// The revision of the latest change.
    pub fn rev(&self) -> u64 {
        *self.rev.borrow()
    }

    /// A page of events.
    pub async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        Ok(self.store.events(query).await?)
    }

    /// How many notices wait: events that nobody looked at yet, and deliveries that have not arrived.
    pub async fn alert_outbox_depth(&self) -> Result<usize> {
        Ok(self.store.pending_alerts().await?.len() + self.store.pending_deliveries().await?)
    }

    /// Forgets what the limits say may be forgotten.
    pub async fn forget_the_old(&self) -> Result<()> {
        let now_ms = self.now();
        let mut tx = self.store.begin().await?;
        let before = |age: Duration| now_ms.saturating_sub(millis(age));
        tx.expire(&crate::store::Expiry {
            now_ms,
            scores_before_ms: before(self.limits.score_retention),
            deliveries_before_ms: before(DELIVERY_RETENTION),
            events_before_ms: self.limits.event_retention.map(before),
        })
        .await?;
        Ok(tx.commit().await?)
    }

    /// What time it is, by the clock that the service was given.
    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// Records an event and, where somebody may want to be told of it, the alert: in the caller's transaction.
    async fn record(&self, tx: &mut Tx, event: &NewEvent) -> Result<u64> {
        let id = tx.append_event(event).await?;
        if event.event_type.is_alerted() {
            tx.enqueue_alert(id, event.at_ms, event.at_ms.saturating_add(millis(ALERT_LIFETIME))).await?;
        }
        Ok(id)
    }

    /// Commits, then wakes the polls that wait for `rev`.
    ///
    /// In a task of its own: a caller that goes away in the middle must not leave a change that filters never hear of.
    async fn commit(&self, tx: Tx, rev: u64) -> Result<()> {
        let (latest, pulse) = (self.rev.clone(), self.pulse.clone());
        let committed = tokio::spawn(async move {
            tx.commit().await?;
            publish(&latest, rev);
            beat(&pulse);
            Ok::<_, StoreError>(())
        });
        match committed.await {
            Ok(outcome) => Ok(outcome?),
            Err(error) => Err(StoreError::Unavailable(format!("the commit did not end: {error}")).into()),
        }
    }
}

/// Wakes whoever waits for a revision. Two may arrive in the wrong order; the latest never falls.
fn publish(latest: &watch::Sender<u64>, rev: u64) {
    latest.send_if_modified(|current| {
        let is_news = rev > *current;
        *current = rev.max(*current);
        is_news
    });
}

fn beat(pulse: &watch::Sender<u64>) {
    pulse.send_modify(|beats| *beats = beats.wrapping_add(1));
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
