//! What the filters saw: agents appear by themselves, scores are kept for the timeline.
//!
//! Observations are lossy by design, so what is odd in them is left out and counted, and the rest is kept. An id that
//! nobody knows creates an agent with the kill switch off, but only up to a limit: ids come from clients, and a client
//! that invents them must not fill the database or, through sync, the filters' memory.

use agent_kill_switch::policy::is_agent_id;
use agent_kill_switch::wire::{AgentObservation, Observations, ScoreSample};
use serde::Serialize;

use super::agents::next_generation;
use super::{Result, Service};
use crate::model::{Agent, Millis};
use crate::store::Tx;

/// Agents looked at in one report.
const MAX_AGENTS: usize = 1_000;
/// Scores of one agent kept of one report: the latest.
const MAX_SCORES: usize = 200;

/// What became of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObservationReceipt {
    /// Agents whose observations were kept.
    pub accepted: u64,
    /// How many of them are new.
    pub created: u64,
    /// Agents left out: malformed ids, or too many in one report.
    pub ignored: u64,
    /// Unknown agents left out because traffic has created as many as it may.
    pub over_limit: u64,
}

impl Service {
    /// Takes a report.
    pub async fn observe(&self, report: &Observations) -> Result<ObservationReceipt> {
        let now_ms = self.now();
        let mut receipt = ObservationReceipt::default();
        let is_usable = |seen: &&AgentObservation| is_agent_id(seen.agent_id.as_bytes());
        let usable: Vec<_> = report.agents.iter().take(MAX_AGENTS).filter(is_usable).collect();
        receipt.ignored = (report.agents.len() - usable.len()) as u64;
        if usable.is_empty() {
            return Ok(receipt);
        }
        let mut tx = self.store.begin().await?;
        let (mut rev, mut room) = (0, None);
        for seen in usable {
            match self.welcome(&mut tx, seen, &mut room).await? {
                Welcome::Known => receipt.accepted += 1,
                Welcome::New(new) => {
                    rev = new;
                    receipt.accepted += 1;
                    receipt.created += 1;
                }
                Welcome::Full => {
                    receipt.over_limit += 1;
                    continue;
                }
            }
            self.keep(&mut tx, seen, now_ms).await?;
        }
        self.commit(tx, rev).await?;
        self.count(report, &receipt);
        Ok(receipt)
    }

    /// Makes sure that the agent exists. `room` is how many more may be created, once it is known.
    async fn welcome(&self, tx: &mut Tx, seen: &AgentObservation, room: &mut Option<u64>) -> Result<Welcome> {
        let found = tx.agent(&seen.agent_id).await?;
        let former = match found {
            Some(agent) if !agent.deleted => return Ok(Welcome::Known),
            Some(tombstone) => Some(tombstone.policy.generation),
            None => None,
        };
        let left = match *room {
            Some(left) => left,
            None => self.limits.max_discovered_agents.saturating_sub(tx.discovered_agents().await?),
        };
        *room = Some(left.saturating_sub(1));
        if left == 0 {
            return Ok(Welcome::Full);
        }
        let mut agent = Agent::new(&seen.agent_id, next_generation(former));
        agent.discovered = true;
        Ok(Welcome::New(tx.save_agent(&agent).await?))
    }

    async fn keep(&self, tx: &mut Tx, seen: &AgentObservation, now_ms: Millis) -> Result<()> {
        // A reporter's clock may be ahead, or its field empty.
        let at = |reported: Millis| if reported == 0 { now_ms } else { reported.min(now_ms) };
        tx.touch_agent(&seen.agent_id, at(seen.last_seen_ms), at(seen.last_seen_ms)).await?;
        let latest = seen.scores.iter().rev().take(MAX_SCORES).rev();
        let scores: Vec<_> = latest
            .filter(|sample| sample.score.is_finite())
            .map(|sample| ScoreSample { at_ms: at(sample.at_ms), ..sample.clone() })
            .collect();
        if !scores.is_empty() {
            tx.append_scores(&seen.agent_id, &scores, self.limits.scores_per_agent).await?;
        }
        Ok(())
    }

    fn count(&self, report: &Observations, receipt: &ObservationReceipt) {
        let total = |of: fn(&AgentObservation) -> u64| report.agents.iter().map(of).fold(0, u64::saturating_add);
        metrics::counter!("kill_switch_requests_total").increment(total(|seen| seen.requests));
        metrics::counter!("kill_switch_requests_refused_total").increment(total(|seen| seen.refused));
        metrics::counter!("kill_switch_agents_over_limit_total").increment(receipt.over_limit);
    }
}

enum Welcome {
    Known,
    New(u64),
    Full,
}
