//! How replicas exchange messages about the calls of agents.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Result;
use crate::model::FleetMessage;

/// How long [`EntryBus::receive`] waits before it returns without a message.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Passes messages from each replica to all of them. Messages may be lost, and none arrives twice.
#[async_trait]
pub trait EntryBus: Send + Sync {
    /// Sends messages to every replica, this one included.
    async fn publish(&self, messages: Vec<FleetMessage>) -> Result<()>;
    /// Waits for messages, but not for long. Every replica gets them in the same order. One caller at a time.
    async fn receive(&self) -> Result<Vec<FleetMessage>>;
}

/// The bus of a single replica, which needs no database.
#[derive(Default)]
pub struct InProcess {
    messages: Mutex<Vec<FleetMessage>>,
    published: Notify,
}

impl InProcess {
    /// Takes the messages that wait.
    pub(super) fn take(&self) -> Vec<FleetMessage> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns once messages have been published.
    pub(super) async fn published(&self) {
        self.published.notified().await;
    }
}

#[async_trait]
impl EntryBus for InProcess {
    async fn publish(&self, messages: Vec<FleetMessage>) -> Result<()> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        self.published.notify_one();
        Ok(())
    }

    async fn receive(&self) -> Result<Vec<FleetMessage>> {
        let waiting = self.take();
        if waiting.is_empty() {
            let _ = timeout(PATIENCE, self.published()).await;
            return Ok(self.take());
        }
        Ok(waiting)
    }
}
