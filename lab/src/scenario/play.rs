//! Scenarios over HTTP.

use super::{Pace, Scenario};
use crate::chat::{Caller, Reply};

impl Scenario {
    /// Sends one round of it, refused or not, and returns the replies in the order of the steps.
    pub async fn play(&self, caller: &Caller) -> Result<Vec<Reply>, reqwest::Error> {
        match self.pace {
            Pace::OneByOne => {
                let mut replies = Vec::with_capacity(self.steps.len());
                for step in &self.steps {
                    replies.push(caller.call(&step.request, Some(&step.answer)).await?);
                }
                Ok(replies)
            }
            Pace::AtOnce => {
                let caller = caller.clone().without_keep_alive();
                let calls = self.steps.iter().map(|step| caller.call(&step.request, Some(&step.answer)));
                futures_util::future::try_join_all(calls).await
            }
        }
    }
}

/// Returns the number of the first reply that did not come from the upstream, counted from 1.
pub fn first_refused(replies: &[Reply]) -> Option<usize> {
    replies.iter().position(|reply| !reply.from_upstream()).map(|index| index + 1)
}
