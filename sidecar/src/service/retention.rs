//! Deletes what is older than the limits allow.
//!
//! There may be millions of rows to delete, for instance after a retention was set for the first time, and kills need the
//! same writer. So they are deleted in small transactions with pauses in between, and a kill waits for one of them at most.

use std::time::Duration;

use tokio::time::sleep;

use super::{Result, Service, millis};
use crate::store::{EXPIRE_AT_MOST, Expiry};

/// How long finished deliveries are kept.
const DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a stop of a conversation is kept after filters were told of it for the last time.
const STOP_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// The pause between two transactions, in which other processes can get hold of the database too.
const PAUSE: Duration = Duration::from_millis(20);

impl Service {
    /// Deletes everything that is older than the limits allow.
    pub async fn expire(&self) -> Result<()> {
        let now_ms = self.now();
        let before = |age: Duration| now_ms.saturating_sub(millis(age));
        let expiry = Expiry {
            now_ms,
            scores_before_ms: before(self.limits.score_retention),
            deliveries_before_ms: before(DELIVERY_RETENTION),
            stops_before_ms: before(STOP_RETENTION),
            events_before_ms: self.limits.event_retention.map(before),
        };
        loop {
            let mut tx = self.store.begin().await?;
            let deleted = tx.expire(&expiry).await?;
            if deleted > 0 {
                tx.commit().await?;
            }
            if deleted < EXPIRE_AT_MOST {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }
}
