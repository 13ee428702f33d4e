//! What agents used, what they were refused, and what that costs at the operator's prices.

use agent_kill_switch::printable::printable;
use agent_kill_switch::wire::{MAX_MODELS, ModelUsage, add_usage};

use super::{Prices, Result, Service};
use crate::model::{UsageDay, day_of};

/// The longest name of a model, in characters.
const MAX_MODEL: usize = 64;

impl Service {
    /// Returns the days of an agent, or of all agents together, from `since_day` on, oldest first. Days without traffic are
    /// left out. What was reported within the last second may be missing.
    pub async fn usage_by_day(&self, agent_id: Option<&str>, since_day: u64) -> Result<Vec<UsageDay>> {
        Ok(match agent_id {
            Some(agent_id) => self.store.usage_of(agent_id, since_day).await?,
            None => self.store.usage(since_day).await?,
        })
    }

    /// Returns the first of the latest `days` days, today included.
    pub fn first_of_days(&self, days: u32) -> u64 {
        (day_of(self.now()) + 1).saturating_sub(days.into())
    }

    /// Returns the operator's prices, if there are any.
    pub fn prices(&self) -> Option<&Prices> {
        self.prices.as_ref()
    }

    /// Uses the operator's prices.
    pub fn pricing(self, prices: Option<Prices>) -> Self {
        Self { prices, ..self }
    }
}

/// Merges what was reported of an agent into a day.
pub(super) fn merge(day: &mut UsageDay, usage: &[ModelUsage], refused: u64) {
    // No report has as many tokens or calls. The bound keeps the sums of the database from overflowing.
    let bounded = |count: u64| count.min(u32::MAX.into());
    day.refused += bounded(refused);
    for one in usage.iter().take(MAX_MODELS + 1) {
        let usage = ModelUsage {
            model: printable(&one.model).chars().take(MAX_MODEL).collect(),
            calls: bounded(one.calls),
            input_tokens: bounded(one.input_tokens),
            output_tokens: bounded(one.output_tokens),
        };
        add_usage(&mut day.models, usage);
    }
}
