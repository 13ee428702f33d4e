//! The courier: takes events from the outbox, and deliveries to their receivers, for as long as the sidecar runs.
//!
//! Deliveries run beside each other, so that a receiver that hangs delays nobody else. Each try is claimed before it is
//! made, so that replicas over one database do not both make it. A crash in the middle of a try means that the try is
//! made again, which is what at least once means.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Alerts;
use crate::model::Delivery;
use crate::service::Result;

/// Tries under way at once.
const ABREAST: usize = 16;
/// How often to look for tries that have become due; new events are noticed at once.
const ROUND: Duration = Duration::from_secs(1);

impl Alerts {
    /// Delivers until the sidecar stops.
    pub async fn run(self: Arc<Self>) {
        let mut stopping = self.service.stopping();
        let mut heartbeat = self.service.heartbeat();
        let mut under_way = HashSet::new();
        let mut tries = JoinSet::new();
        loop {
            if let Err(error) = self.start_due(&mut tries, &mut under_way).await {
                tracing::error!(%error, "alerts cannot be delivered");
                sleep(ROUND).await;
            }
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return,
                Some(ended) = tries.join_next() => drop(ended.map(|id: String| under_way.remove(&id))),
                _ = heartbeat.changed() => {}
                () = sleep(ROUND) => {}
            }
        }
    }

    async fn start_due(self: &Arc<Self>, tries: &mut JoinSet<String>, under_way: &mut HashSet<String>) -> Result<()> {
        self.service.route_alerts().await?;
        for delivery in self.service.due_deliveries((ABREAST * 2) as u32).await? {
            if tries.len() >= ABREAST || !under_way.insert(delivery.delivery_id.clone()) {
                continue;
            }
            let alerts = Arc::clone(self);
            tries.spawn(async move {
                let id = delivery.delivery_id.clone();
                alerts.deliver(delivery).await;
                id
            });
        }
        Ok(())
    }

    /// Empties the outbox and tries everything that is due, once; how many tries that were.
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
            // It stays due and is tried again: the receiver may hear it twice, which its id tells.
            tracing::error!(%error, "the outcome of an alert was not written down");
        }
    }
}
