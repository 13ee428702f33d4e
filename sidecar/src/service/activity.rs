//! Which agents are busy, and which come close to their threshold: what `kill-switch top` shows.
//!
//! The calls per second are an average that forgets the past with a half-life of about ten seconds, as the load average of
//! an operating system does. They are counted in memory from the reports that arrive at this replica, so they touch no table,
//! and start at 0 after a restart.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::{Result, Service};
use crate::model::{Agent, Millis};

/// After this time, a call counts for a third (1/e) of a new one.
const MEMORY_MS: f64 = 15_000.0;
/// Rates below this are 0: the agent has made no call for minutes.
const LOWEST_RATE: f64 = 0.005;
/// The largest number of agents whose calls are counted. The quietest are forgotten first.
const MAX_AGENTS: usize = 20_000;
/// How long ago an agent may have been seen for its score to be of interest.
const RECENT_MS: Millis = 5 * 60_000;

/// What an agent does at the moment. It is serialised as the API shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    /// The agent.
    pub agent: Agent,
    /// The latest score, if the agent was seen in the last five minutes.
    pub score: Option<f64>,
    /// The calls per second that were reported to this replica.
    pub calls_per_second: f64,
    /// How many Envoys have reported calls of it lately.
    pub envoys: usize,
}

/// What the busiest agents are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// By the latest score as a share of the threshold.
    #[default]
    Score,
    /// By calls per second.
    Rate,
}

impl Ranking {
    /// Returns the ranking that a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "score" => Some(Self::Score),
            "rate" => Some(Self::Rate),
            _ => None,
        }
    }
}

/// An average of calls per second at a time.
#[derive(Clone, Copy, Default)]
struct Rate {
    per_second: f64,
    at_ms: Millis,
}

impl Rate {
    fn at(self, now_ms: Millis) -> f64 {
        let rate = self.per_second * (-(now_ms.abs_diff(self.at_ms) as f64) / MEMORY_MS).exp();
        if rate < LOWEST_RATE { 0.0 } else { rate }
    }

    fn add(&mut self, calls: u64, now_ms: Millis) {
        *self = Self { per_second: self.at(now_ms) + calls as f64 * 1_000.0 / MEMORY_MS, at_ms: now_ms };
    }
}

/// The calls per second of each agent.
#[derive(Default)]
pub(super) struct Rates(Mutex<HashMap<String, Rate>>);

impl Rates {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Rate>> {
        // The map is consistent between any two statements, so a panic elsewhere does not invalidate it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts calls of an agent.
    pub(super) fn add(&self, agent_id: &str, calls: u64, now_ms: Millis) {
        if calls == 0 {
            return;
        }
        let mut rates = self.lock();
        if let Some(rate) = rates.get_mut(agent_id) {
            return rate.add(calls, now_ms);
        }
        if rates.len() >= MAX_AGENTS {
            rates.retain(|_, rate| rate.at(now_ms) > 0.0);
        }
        if rates.len() < MAX_AGENTS {
            rates.entry(agent_id.to_owned()).or_default().add(calls, now_ms);
        }
    }

    /// Returns the calls per second of an agent.
    fn of(&self, agent_id: &str, now_ms: Millis) -> f64 {
        self.lock().get(agent_id).map_or(0.0, |rate| rate.at(now_ms))
    }

    /// Returns the agents with the most calls per second.
    fn busiest(&self, limit: usize, now_ms: Millis) -> Vec<String> {
        let mut busy: Vec<_> = {
            let rates = self.lock();
            rates.iter().map(|(id, rate)| (rate.at(now_ms), id.clone())).filter(|(rate, _)| *rate > 0.0).collect()
        };
        busy.sort_by(|(one, id), (other, other_id)| other.total_cmp(one).then_with(|| id.cmp(other_id)));
        busy.into_iter().take(limit).map(|(_, id)| id).collect()
    }
}

impl Service {
    /// Returns what the agents do that come first in a ranking.
    pub async fn activity(&self, ranking: Ranking, limit: u32) -> Result<Vec<Activity>> {
        let now_ms = self.now();
        let recent_ms = now_ms.saturating_sub(RECENT_MS);
        let mut ids = match ranking {
            Ranking::Score => Vec::new(),
            Ranking::Rate => self.rates.busiest(limit as usize, now_ms),
        };
        let busy: HashSet<_> = ids.iter().cloned().collect();
        let ranked = self.store.ranked_agents(recent_ms, limit).await?;
        ids.extend(ranked.into_iter().filter(|id| !busy.contains(id)));
        ids.truncate(limit as usize);
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            // An agent that was deleted in the meantime is left out.
            let Some(agent) = self.store.agent(&id).await? else { continue };
            let is_recent = agent.last_seen_ms.is_some_and(|seen_ms| seen_ms >= recent_ms);
            let score = match is_recent {
                true => self.store.scores(&id, 0, 1).await?.last().map(|sample| sample.score),
                false => None,
            };
            let envoys = self.fleet_view(&id).envoys.len();
            let calls_per_second = (self.rates.of(&id, now_ms) * 100.0).round() / 100.0;
            all.push(Activity { agent, score, calls_per_second, envoys });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_fades_when_the_calls_end() {
        let rates = Rates::default();
        for second in 0..120 {
            rates.add("steady", 4, second * 1_000);
        }
        let rate = rates.of("steady", 119_000);
        assert!((3.7..4.3).contains(&rate), "{rate}");
        let faded = rates.of("steady", 119_000 + 15_000);
        assert!((rate / faded - std::f64::consts::E).abs() < 0.001, "{faded}");
        assert_eq!(rates.of("steady", 119_000 + 600_000), 0.0);
        assert_eq!(rates.of("unknown", 0), 0.0);
    }

    #[test]
    fn the_busiest_agents_come_first_and_silent_ones_not_at_all() {
        let rates = Rates::default();
        rates.add("silent", 100, 0);
        rates.add("none", 0, 300_000);
        for (agent, calls) in [("a", 5), ("c", 9), ("b", 5)] {
            rates.add(agent, calls, 300_000);
        }
        assert_eq!(rates.busiest(10, 300_000), ["c", "a", "b"]);
        assert_eq!(rates.busiest(1, 300_000), ["c"]);
    }
}
