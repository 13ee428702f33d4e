//! The courier: a background task that turns events in the outbox into deliveries, and attempts those that are due.
//!
//! Attempts run concurrently, so that a receiver that hangs does not delay the others. Each attempt is claimed in the
//! database first, so that only one of several replicas makes it. If the sidecar crashes during an attempt, the attempt is
//! made again: notices are delivered at least once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Alerts;
use crate::model::Delivery;
use crate::service::Result;

/// How many attempts may run at the same time.
const MAX_CONCURRENT: usize = 16;
/// How often to look for attempts that have become due. New events are noticed at once.
const PERIOD: Duration = Duration::from_secs(1);

impl Alerts {
    /// Delivers alerts until the sidecar stops.
    pub async fn run(self: Arc<Self>) {
        let mut stopping = self.service.stopping();
        let mut heartbeat = self.service.heartbeat();
        let mut running = HashSet::new();
        let mut attempts = JoinSet::new();
        loop {
            if let Err(error) = self.start_due(&mut attempts, &mut running).await {
                tracing::error!(%error, "alerts cannot be delivered");
                sleep(PERIOD).await;
            }
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return,
                Some(ended) = attempts.join_next() => drop(ended.map(|id: String| running.remove(&id))),
                _ = heartbeat.changed() => {}
                () = sleep(PERIOD) => {}
            }
        }
    }

    async fn start_due(self: &Arc<Self>, attempts: &mut JoinSet<String>, running: &mut HashSet<String>) -> Result<()> {
        self.service.route_alerts().await?;
        for delivery in self.service.due_deliveries((MAX_CONCURRENT * 2) as u32).await? {
            if attempts.len() >= MAX_CONCURRENT || !running.insert(delivery.delivery_id.clone()) {
                continue;
            }
            let alerts = Arc::clone(self);
            attempts.spawn(async move {
                let id = delivery.delivery_id.clone();
                alerts.deliver(delivery).await;
                id
            });
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

    async fn deliver(&self, delivery: Delivery) {
        match self.service.claim_delivery(&delivery).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::error!(%error, "an alert cannot be delivered now"),
        }
        let rule = self.service.alert_rule(&delivery.rule_id).await.ok().filter(|rule| rule.enabled);
        if let Err(error) = self.attempt(delivery, rule.as_ref()).await {
            // The delivery stays due. If the notice has arrived, its receiver gets it again, under the same id.
            tracing::error!(%error, "the outcome of an alert could not be stored");
        }
    }
}
