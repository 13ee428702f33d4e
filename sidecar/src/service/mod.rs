//! The rules: what may be set, what a kill does, who is told of a change.
//!
//! There is no axum, sqlx or socket here, so the API, the dashboard and tests can all call it. Each change is one
//! transaction of the store. Waiting polls are woken only after the commit, so that nobody is told of a state that a
//! crash could undo.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::clock::Clock;
use crate::model::{Event, Millis, NewEvent, NoticeKind};
use crate::store::{EventQuery, Meta, Store, StoreError, Tx};

mod access;
mod activity;
mod agents;
mod answer_loops;
mod apply;
mod calls;
mod envoys;
mod error;
mod fleet;
mod follow;
mod kills;
mod notices;
mod observations;
mod overview;
mod pause;
mod policies;
mod preview;
mod prices;
mod readiness;
mod rerun;
mod retention;
mod rules;
mod sessions;
mod settings;
mod storm;
mod story;
mod sync;
mod tokens;
mod tools;
mod usage;

pub use activity::{Activity, Ranking};
pub use agents::{Caller, Note, Precondition};
pub use apply::{AgentStep, Applied, Apply, RuleStep, Step};
pub use envoys::EnvoyView;
pub(crate) use envoys::SHARE;
pub use error::{Error, Result};
pub(crate) use fleet::PUBLISH_INTERVAL;
pub use fleet::{EntryReceipt, EnvoyScore, FleetView};
pub use kills::KillReceipt;
pub use notices::{Attempt, Next};
pub use observations::ObservationReceipt;
pub(crate) use observations::WRITE_INTERVAL;
pub use overview::{AgentStates, AlertCounts, EnvoyCounts, LatestKill, Loops, Overview, stopped_session};
pub use pause::PauseRequest;
pub use policies::{Policies, PolicyFile};
pub use preview::{Basis, Preview, Stop};
pub use prices::{Cost, Prices};
pub use readiness::NotReady;
pub use rules::{DEFAULT_COOLDOWN_SECONDS, MAX_COOLDOWN_SECONDS, RuleChange};
pub use settings::{Change, Names};
pub use story::{Remedy, Story, StoryCall, Told, event_id, is_kill};
pub use sync::{SyncRequest, Synced};
pub use tokens::{Identity, NewToken};
pub use tools::{check_tools, parse_tools};

/// How long an event may wait in the outbox before it is too old to be announced.
const ALERT_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// What is kept, and how much of it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The number of agents that traffic may create. It bounds what invented ids can add to the database and to the
    /// memory of the filters.
    pub max_discovered_agents: u64,
    /// The number of scores that are kept for each agent.
    pub scores_per_agent: u32,
    /// The number of calls that are kept for each agent whose kill switch is on. 0 means that none are.
    pub calls_per_agent: u32,
    /// How long scores and calls are kept.
    pub score_retention: Duration,
    /// How long events are kept, and what agents used by day. `None` means for ever.
    pub event_retention: Option<Duration>,
    /// How long the delivery of an alert is attempted.
    pub alert_give_up_after: Duration,
    /// How many agents and conversations may be stopped within a minute before the fleet is paused. 0 means that it never
    /// is.
    pub storm_kills: u32,
    /// How long a storm of kills pauses the fleet.
    pub storm_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_discovered_agents: 10_000,
            scores_per_agent: 1_000,
            calls_per_agent: 1_000,
            score_retention: Duration::from_secs(7 * 24 * 3600),
            event_retention: None,
            alert_give_up_after: ALERT_LIFETIME,
            storm_kills: 20,
            storm_pause: Duration::from_secs(3600),
        }
    }
}

/// Is called with the events of a transaction. What it returns is called after the commit, and dropped if that fails.
pub(crate) type EventSink = Box<dyn Fn(Vec<Event>) -> Box<dyn FnOnce() + Send> + Send + Sync>;

/// The rules of the sidecar, over a store.
pub struct Service {
    store: Arc<Store>,
    clock: Clock,
    limits: Limits,
    prices: Option<Prices>,
    /// What was last read of the identity of the database.
    meta: Arc<Mutex<Meta>>,
    rev: watch::Sender<u64>,
    stopping: watch::Sender<bool>,
    /// Changes whenever something on a page of the dashboard may have changed.
    heartbeat: watch::Sender<u64>,
    envoys: envoys::Registry,
    observations: observations::Collector,
    rates: activity::Rates,
    answer_loops: answer_loops::AnswerLoops,
    calls: calls::CallCollector,
    fleet: fleet::Fleet,
    keyring: tokens::Keyring,
    readiness: readiness::Probe,
    event_sink: OnceLock<EventSink>,
    /// Limits how many passwords are hashed at once: each takes a processor and 19 MB for a moment.
    hashing: Semaphore,
}

impl Service {
    /// Returns a service over a store.
    pub async fn new(store: Arc<Store>, clock: Clock, limits: Limits) -> Result<Self> {
        let meta = store.meta().await?;
        let keyring = tokens::Keyring::default();
        keyring.replace(store.tokens().await?);
        let fleet = fleet::Fleet::new(store.entry_bus(), meta.rev);
        Ok(Self {
            store,
            clock,
            limits,
            prices: None,
            rev: watch::Sender::new(meta.rev),
            meta: Arc::new(Mutex::new(meta)),
            stopping: watch::Sender::new(false),
            heartbeat: watch::Sender::new(0),
            envoys: envoys::Registry::default(),
            observations: observations::Collector::default(),
            rates: activity::Rates::default(),
            answer_loops: answer_loops::AnswerLoops::default(),
            calls: calls::CallCollector::default(),
            fleet,
            keyring,
            readiness: readiness::Probe::default(),
            event_sink: OnceLock::new(),
            hashing: Semaphore::new(2),
        })
    }

    /// Ends every waiting poll, now and from now on.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns a receiver of whether the sidecar is about to end.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Returns a receiver whose value changes whenever agents, scores, events or deliveries may have changed.
    pub fn heartbeat(&self) -> watch::Receiver<u64> {
        self.heartbeat.subscribe()
    }

    /// Passes every event that is recorded from now on to a sink. The first sink stays.
    pub(crate) fn set_event_sink(&self, sink: EventSink) {
        let _ = self.event_sink.set(sink);
    }

    fn beat(&self) {
        beat(&self.heartbeat);
    }

    /// Returns the revision of the latest change.
    pub fn rev(&self) -> u64 {
        *self.rev.borrow()
    }

    /// Returns a page of events.
    pub async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        Ok(self.store.events(query).await?)
    }

    /// Counts the events that wait in the outbox and the deliveries that are pending.
    pub async fn alert_outbox_depth(&self) -> Result<usize> {
        Ok(self.store.pending_alerts().await?.len() + self.store.pending_deliveries().await?)
    }

    /// Returns the time of the clock that the service was given.
    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// Records an event and, if it may lead to alerts, puts it into the outbox. Returns the id of the event.
    async fn record(&self, tx: &mut Tx, event: &NewEvent) -> Result<u64> {
        let id = tx.append_event(event).await?;
        if NoticeKind::of(event.event_type).is_some() {
            tx.enqueue_alert(id, event.at_ms, event.at_ms.saturating_add(millis(ALERT_LIFETIME))).await?;
        }
        Ok(id)
    }

    /// Commits, then wakes the polls that wait for `rev`.
    ///
    /// This happens in a task of its own, so that filters are told of the change even if the caller is cancelled.
    async fn commit(&self, mut tx: Tx, rev: u64) -> Result<()> {
        let (latest, heartbeat) = (self.rev.clone(), self.heartbeat.clone());
        let (known, meta) = (Arc::clone(&self.meta), tx.meta().cloned());
        let events = tx.take_events();
        let after_commit = self.event_sink.get().map(|sink| sink(events));
        let committed = tokio::spawn(async move {
            tx.commit().await?;
            if let Some(after_commit) = after_commit {
                after_commit();
            }
            if let Some(meta) = meta {
                *known.lock().unwrap_or_else(PoisonError::into_inner) = meta;
            }
            publish(&latest, rev);
            beat(&heartbeat);
            Ok::<_, StoreError>(())
        });
        match committed.await {
            Ok(outcome) => Ok(outcome?),
            Err(error) => Err(StoreError::Unavailable(format!("the commit did not end: {error}")).into()),
        }
    }
}

/// Publishes a revision to those who wait for it. Two revisions may arrive in the wrong order, so a lower one is
/// ignored.
fn publish(latest: &watch::Sender<u64>, rev: u64) {
    latest.send_if_modified(|current| {
        let is_higher = rev > *current;
        *current = rev.max(*current);
        is_higher
    });
}

fn beat(heartbeat: &watch::Sender<u64>) {
    heartbeat.send_modify(|beats| *beats = beats.wrapping_add(1));
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
