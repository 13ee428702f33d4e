//! The courier: a background task that turns events in the outbox into deliveries, and attempts those that are due.
//!
//! Attempts run concurrently, but only a few of them to the same target, so that a receiver that hangs delays nobody else's
//! notices. Each attempt is claimed in the database first, so that only one of several replicas makes it. If the sidecar
//! crashes during an attempt, the attempt is made again: notices are delivered at least once.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;

use super::{Alerts, backoff, send};
use crate::model::{AlertRule, Channel, Delivery};
use crate::service::{Attempt, Next, Result};

/// How many attempts may run at the same time.
const MAX_CONCURRENT: usize = 64;
/// How many of them may be made to the same target.
const MAX_PER_TARGET: usize = 4;
/// How many due deliveries of each rule are looked at. Some of them may be under way already.
const LOOKED_AT: u32 = 2 * MAX_PER_TARGET as u32;
/// How often to look for attempts that have become due. New events are noticed at once.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a delivery rests if the outcome of an attempt could not be recorded. It is still due, and without a rest its
/// receiver would get the same notice again and again while the database cannot be written.
const REST: Duration = Duration::from_secs(60);

/// The attempts that are under way.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    /// The delivery and the target of each task.
    of_task: HashMap<Id, (String, String)>,
}

impl Running {
    fn is_full(&self) -> bool {
        self.tasks.len() >= MAX_CONCURRENT
    }

    /// Whether an attempt of this delivery may be started.
    fn has_room(&self, delivery_id: &str, target: &str) -> bool {
        let is_running = self.of_task.values().any(|(delivery, _)| delivery == delivery_id);
        let to_target = self.of_task.values().filter(|(_, other)| other == target).count();
        !is_running && to_target < MAX_PER_TARGET
    }

    fn start(&mut self, delivery_id: String, target: String, attempt: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(attempt).id();
        self.of_task.insert(task, (delivery_id, target));
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
        let targets: HashMap<_, _> = rules.iter().map(|rule| (rule.rule_id.as_str(), target_of(rule))).collect();
        for delivery in due {
            if running.is_full() {
                break;
            }
            // A delivery without a rule is sent nowhere.
            let target = targets.get(delivery.rule_id.as_str()).copied().unwrap_or_default();
            if running.has_room(&delivery.delivery_id, target) {
                let alerts = Arc::clone(self);
                let (id, target) = (delivery.delivery_id.clone(), target.to_owned());
                // A delivery that rests counts as one that runs.
                running.start(id, target, async move { sleep(alerts.deliver(delivery).await).await });
            }
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

/// Returns what all attempts under a rule have in common that can hang. All mail goes through one server.
fn target_of(rule: &AlertRule) -> &str {
    match rule.channel {
        Channel::Email => "email",
        _ => &rule.target,
    }
}
