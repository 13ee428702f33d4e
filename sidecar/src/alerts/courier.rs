//! The courier: a background task that turns events in the outbox into deliveries, and attempts those that are due.
//!
//! Attempts run concurrently, but only a few of them to the same host, and the host with the fewest attempts comes first, so
//! that receivers that hang delay nobody else's notices. Each attempt is claimed in the database first, so that only one of
//! several replicas makes it. If the sidecar crashes during an attempt, the attempt is made again: notices are delivered at
//! least once.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use reqwest::Url;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;

use super::{Alerts, backoff, pagerduty, send};
use crate::model::{AlertRule, Channel, Delivery};
use crate::service::{Attempt, Next, Result};

/// How many attempts may run at the same time.
const MAX_CONCURRENT: usize = 64;
/// How many of them may be made to the same host.
const MAX_PER_HOST: usize = 4;
/// How many due deliveries of each rule are looked at. Some of them may be under way already.
const LOOKED_AT: u32 = 2 * MAX_PER_HOST as u32;
/// How often to look for attempts that have become due. New events are noticed at once.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a delivery rests if the outcome of an attempt could not be recorded. It is still due, and without a rest its
/// receiver would get the same notice again and again while the database cannot be written.
const REST: Duration = Duration::from_secs(60);

/// The attempts that are under way.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    /// The delivery and the host of each task.
    of_task: HashMap<Id, (String, String)>,
}

impl Running {
    fn has(&self, delivery_id: &str) -> bool {
        self.of_task.values().any(|(delivery, _)| delivery == delivery_id)
    }

    /// Takes the delivery whose attempt is started next, if there is room for one: that of the host with the fewest
    /// attempts, so that many hosts that hang do not take up all the room.
    fn take_next(&self, due: &mut Vec<(String, Delivery)>) -> Option<(String, Delivery)> {
        if self.tasks.len() >= MAX_CONCURRENT {
            return None;
        }
        let mut running: HashMap<&str, usize> = HashMap::new();
        for (_, host) in self.of_task.values() {
            *running.entry(host).or_default() += 1;
        }
        let counts = due.iter().map(|(host, _)| running.get(host.as_str()).copied().unwrap_or_default()).enumerate();
        let (index, _) = counts.filter(|(_, count)| *count < MAX_PER_HOST).min_by_key(|(_, count)| *count)?;
        Some(due.remove(index))
    }

    fn start(&mut self, delivery_id: String, host: String, attempt: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(attempt).id();
        self.of_task.insert(task, (delivery_id, host));
    }

    /// Waits until an attempt has ended, however it did. Never completes if there is none.
    async fn ended(&mut self) {
        let task = match self.tasks.join_next_with_id().await {
            Some(Ok((task, ()))) => task,
            Some(Err(error)) => error.id(),
            None => std::future::pending().await,
        };
        self.of_task.remove(&task);
    }
}

impl Alerts {
    /// Delivers alerts until the sidecar stops.
    pub async fn run(self: Arc<Self>) {
        let mut stopping = self.service.stopping();
        let mut heartbeat = self.service.heartbeat();
        let mut running = Running::default();
        loop {
            if let Err(error) = self.start_due(&mut running).await {
                tracing::error!(%error, "alerts cannot be delivered");
                sleep(PERIOD).await;
            }
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = running.ended() => {}
                _ = heartbeat.changed() => {}
                () = sleep(PERIOD) => {}
            }
        }
    }

    async fn start_due(self: &Arc<Self>, running: &mut Running) -> Result<()> {
        self.service.route_alerts().await?;
        let due = self.service.due_deliveries(LOOKED_AT).await?;
        if due.is_empty() {
            return Ok(());
        }
        let rules = self.service.alert_rules().await?;
        let hosts: HashMap<_, _> = rules.iter().map(|rule| (rule.rule_id.as_str(), host_of(rule))).collect();
        // A delivery without a rule is sent nowhere.
        let host = |delivery: &Delivery| hosts.get(delivery.rule_id.as_str()).cloned().unwrap_or_default();
        let due = due.into_iter().filter(|delivery| !running.has(&delivery.delivery_id));
        let mut due: Vec<_> = due.map(|delivery| (host(&delivery), delivery)).collect();
        while let Some((host, delivery)) = running.take_next(&mut due) {
            let (alerts, id) = (Arc::clone(self), delivery.delivery_id.clone());
            // A delivery that rests counts as one that runs.
            running.start(id, host, async move { sleep(alerts.deliver(delivery).await).await });
        }
        Ok(())
    }

    /// Empties the outbox and makes one attempt of every delivery that is due. Returns the number of attempts.
    pub async fn deliver_due(&self) -> Result<usize> {
        while self.service.route_alerts().await? > 0 {}
        let due = self.service.due_deliveries(u32::MAX).await?;
        let count = due.len();
        for delivery in due {
            self.deliver(delivery).await;
        }
        Ok(count)
    }

    /// Makes an attempt. One that panics counts as failed, so that it is made again like any other. Returns for how long
    /// the delivery must rest.
    async fn deliver(&self, delivery: Delivery) -> Duration {
        let attempt = AssertUnwindSafe(self.claim_and_attempt(delivery.clone()));
        if let Ok(rest) = attempt.catch_unwind().await {
            return rest;
        }
        tracing::error!(delivery_id = delivery.delivery_id, "an attempt to deliver an alert panicked");
        let recorded = AssertUnwindSafe(self.record_panic(delivery)).catch_unwind().await;
        if matches!(recorded, Ok(Ok(_))) {
            return Duration::ZERO;
        }
        tracing::error!("the outcome of an alert could not be stored");
        REST
    }

    async fn claim_and_attempt(&self, delivery: Delivery) -> Duration {
        match self.service.claim_delivery(&delivery).await {
            Ok(true) => {}
            Ok(false) => return Duration::ZERO,
            Err(error) => {
                tracing::error!(%error, "an alert cannot be delivered now");
                return PERIOD;
            }
        }
        let rule = self.service.alert_rule(&delivery.rule_id).await.ok().filter(|rule| rule.enabled);
        if let Err(error) = self.attempt(delivery, rule.as_ref()).await {
            // The delivery stays due. If the notice has arrived, its receiver gets it again, under the same id.
            tracing::error!(%error, "the outcome of an alert could not be stored");
            return REST;
        }
        Duration::ZERO
    }

    async fn record_panic(&self, delivery: Delivery) -> Result<Delivery> {
        let after_ms = backoff::wait_ms(delivery.attempts + 1, None, send::jitter());
        let error = "the sidecar has a defect: the attempt panicked".to_owned();
        let attempt = Attempt { latency_ms: 0, code: None, next: Next::Retry { after_ms, error } };
        self.service.record_attempt(delivery, attempt).await
    }
}

/// Returns what the attempts of several rules may have in common that can hang: scheme, host and port. All mail goes through
/// one server.
fn host_of(rule: &AlertRule) -> String {
    let url = match rule.channel {
        Channel::Email => return "email".to_owned(),
        Channel::PagerDuty => pagerduty::target(&rule.target).map(|(url, _)| url).ok(),
        _ => None,
    };
    let url = url.as_deref().unwrap_or(&rule.target);
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}
