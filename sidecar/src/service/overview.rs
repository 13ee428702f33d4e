//! What a person wants to see first: the agents by state, the loops of the last day and week, the latest kills and what can
//! be done about each, and whether Envoys and alerts work.

use agent_kill_switch::wire::{Action, DeactivatedBy};
use serde::Serialize;
use serde_json::Value;

use super::{Result, Service};
use crate::clock::serialize_rfc3339;
use crate::model::{Agent, Event, EventType, Millis, RemedyKind};
use crate::store::{AgentCount, EventCount, EventQuery, EventRange};

const HOUR_MS: Millis = 3_600_000;
const DAY_MS: Millis = 24 * HOUR_MS;
/// How many kills are listed.
const LATEST_KILLS: u32 = 10;
/// For how long an alert that failed is counted.
const FAILED_ALERTS_MS: Millis = 7 * DAY_MS;

/// Everything that the overview shows. It is serialised as the API shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// The agents by state.
    pub agents: AgentStates,
    /// How many conversations are stopped while their agents go on.
    pub stopped_sessions: u64,
    /// The loops of the last 24 hours, by hour. The last hour is the current one.
    pub day: Vec<Loops>,
    /// The loops of the last 7 days, by day in UTC. The last day is today.
    pub week: Vec<Loops>,
    /// The latest kills, newest first.
    pub latest_kills: Vec<LatestKill>,
    /// The Envoys.
    pub envoys: EnvoyCounts,
    /// The alerts.
    pub alerts: AlertCounts,
    /// Whether the whole fleet is paused.
    pub paused: bool,
}

/// How many agents are in each state. Every agent is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentStates {
    /// Active, and a loop is stopped.
    pub guarded: u64,
    /// Active, and a loop is only recorded.
    pub observing: u64,
    /// Active, with the kill switch off.
    pub switch_off: u64,
    /// Deactivated by the kill switch.
    pub killed: u64,
    /// Deactivated by a person.
    pub inactive: u64,
}

impl AgentStates {
    /// Returns the number of all agents.
    pub fn total(self) -> u64 {
        self.guarded + self.observing + self.switch_off + self.killed + self.inactive
    }

    fn add(&mut self, group: &AgentCount) {
        let state = match group {
            AgentCount { active: true, kill_switch_enabled: false, .. } => &mut self.switch_off,
            AgentCount { active: true, action: Action::Observe, .. } => &mut self.observing,
            AgentCount { active: true, .. } => &mut self.guarded,
            AgentCount { deactivated_by: Some(DeactivatedBy::KillSwitch), .. } => &mut self.killed,
            AgentCount { .. } => &mut self.inactive,
        };
        *state += group.count;
    }
}

/// The loops that were found within an hour or a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loops {
    /// When the hour or day began.
    #[serde(rename = "from", serialize_with = "serialize_rfc3339")]
    pub from_ms: Millis,
    /// How many agents were deactivated and conversations stopped.
    pub kills: u64,
    /// How many agents and conversations were refused for a while.
    pub blocks: u64,
    /// How many loops were only recorded.
    pub would_kills: u64,
}

impl Loops {
    /// Returns the number of all loops.
    pub fn total(&self) -> u64 {
        self.kills + self.blocks + self.would_kills
    }
}

/// A kill, and what a person can do about it now.
#[derive(Clone, Debug, Serialize)]
pub struct LatestKill {
    /// The event that records it.
    pub event: Event,
    /// The name of the agent. Empty if it has none, or if it was deleted.
    pub agent_name: String,
    /// What would let the agent or the conversation work again. `None` if it does already.
    pub remedy: Option<RemedyKind>,
}

/// How many Envoys there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvoyCounts {
    /// How many are connected.
    pub connected: usize,
    /// How many of these have applied the latest revision.
    pub up_to_date: usize,
    /// How many are known, connected or not.
    pub known: usize,
}

/// How many alert rules there are, and whether their notices arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlertCounts {
    /// How many rules are switched on.
    pub rules: usize,
    /// How many notices of the last 7 days were given up.
    pub failed: u64,
    /// How many notices have failed and are attempted again.
    pub retrying: u64,
}

impl Service {
    /// Returns the overview.
    pub async fn overview(&self) -> Result<Overview> {
        let now_ms = self.now();
        let mut agents = AgentStates::default();
        self.store.count_agents().await?.iter().for_each(|group| agents.add(group));
        let rules = self.store.alert_rules().await?;
        let (failed, retrying) = self.store.count_failed_deliveries(now_ms.saturating_sub(FAILED_ALERTS_MS)).await?;
        let (envoys, rev) = (self.envoys(), self.rev());
        let connected = || envoys.iter().filter(|envoy| envoy.connected);
        Ok(Overview {
            agents,
            stopped_sessions: self.store.count_stopped_sessions(now_ms).await?,
            day: self.loops(now_ms, HOUR_MS, 24).await?,
            week: self.loops(now_ms, DAY_MS, 7).await?,
            latest_kills: self.latest_kills(now_ms).await?,
            envoys: EnvoyCounts {
                connected: connected().count(),
                up_to_date: connected().filter(|envoy| envoy.applied_rev == Some(rev)).count(),
                known: envoys.len(),
            },
            alerts: AlertCounts { rules: rules.iter().filter(|rule| rule.enabled).count(), failed, retrying },
            paused: self.pause().await?.is_some(),
        })
    }

    /// Returns the loops of the latest `periods`, of which the last one contains the current time.
    async fn loops(&self, now_ms: Millis, period_ms: Millis, periods: usize) -> Result<Vec<Loops>> {
        let end_ms = (now_ms / period_ms).saturating_add(1).saturating_mul(period_ms);
        let since_ms = end_ms.saturating_sub(period_ms.saturating_mul(periods as Millis));
        let counts = self.store.count_loops(since_ms, end_ms, period_ms).await?;
        Ok(distribute(&counts, since_ms, period_ms, periods))
    }

    async fn latest_kills(&self, now_ms: Millis) -> Result<Vec<LatestKill>> {
        let query = EventQuery {
            range: EventRange::Before(None),
            agent_id: None,
            event_type: Some(EventType::KillSwitch),
            since_ms: None,
            until_ms: None,
            limit: LATEST_KILLS,
        };
        let mut kills = Vec::new();
        for event in self.store.events(&query).await? {
            let agent = self.store.agent(&event.body.agent_id).await?;
            let remedy = match &agent {
                Some(agent) => self.release(agent, &event, now_ms).await?,
                None => None,
            };
            kills.push(LatestKill { event, agent_name: agent.map(|agent| agent.name).unwrap_or_default(), remedy });
        }
        Ok(kills)
    }

    /// Returns what lets the agent or the conversation of a kill work again, if it is still stopped by it. A kill of an
    /// earlier generation is over.
    pub(super) async fn release(&self, agent: &Agent, kill: &Event, now_ms: Millis) -> Result<Option<RemedyKind>> {
        if kill.body.generation != agent.policy.generation {
            return Ok(None);
        }
        let Some(key) = stopped_session(kill) else {
            let is_killed = agent.policy.deactivated_by == Some(DeactivatedBy::KillSwitch);
            return Ok(is_killed.then_some(RemedyKind::Activate));
        };
        let stop = self.store.latest_stop(agent.id(), agent.policy.generation, key).await?;
        let is_stopped = stop.is_some_and(|stop| stop.event_id == kill.id && stop.is_in_force(now_ms));
        Ok(is_stopped.then_some(RemedyKind::Resume))
    }
}

/// Returns the key of the conversation that a kill stopped, or `None` if it deactivated the agent.
pub fn stopped_session(kill: &Event) -> Option<&str> {
    let detail = &kill.body.detail;
    let is_session = detail.get("scope").is_some_and(|scope| scope == "session");
    detail.get("session_key").and_then(Value::as_str).filter(|_| is_session)
}

/// Returns one entry for each period, in which the counts are added up.
fn distribute(counts: &[EventCount], since_ms: Millis, period_ms: Millis, periods: usize) -> Vec<Loops> {
    let empty = |period| Loops { from_ms: since_ms + period_ms * period as Millis, ..Loops::default() };
    let mut all: Vec<_> = (0..periods).map(empty).collect();
    for counted in counts {
        let Some(loops) = all.get_mut(counted.period) else { continue };
        match counted.event_type {
            EventType::KillSwitch => loops.kills += counted.count,
            EventType::Blocked => loops.blocks += counted.count,
            EventType::WouldKill => loops.would_kills += counted.count,
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_counted_in_one_state() {
        let group = |active, deactivated_by, kill_switch_enabled, action, count| AgentCount {
            active,
            deactivated_by,
            kill_switch_enabled,
            action,
            count,
        };
        let mut states = AgentStates::default();
        for one in [
            group(true, None, true, Action::Deactivate, 1),
            group(true, None, true, Action::Block, 10),
            group(true, None, true, Action::Observe, 100),
            group(true, None, false, Action::Observe, 1_000),
            group(true, None, false, Action::Deactivate, 10_000),
            group(false, Some(DeactivatedBy::KillSwitch), true, Action::Deactivate, 100_000),
            group(false, Some(DeactivatedBy::Manual), true, Action::Deactivate, 1_000_000),
        ] {
            states.add(&one);
        }
        let expected =
            AgentStates { guarded: 11, observing: 100, switch_off: 11_000, killed: 100_000, inactive: 1_000_000 };
        assert_eq!((states, states.total()), (expected, 1_111_111));
    }

    #[test]
    fn periods_without_a_loop_are_there_too() {
        let counted = |event_type, period, count| EventCount { event_type, period, count };
        let counts = [
            counted(EventType::KillSwitch, 0, 2),
            counted(EventType::WouldKill, 2, 5),
            counted(EventType::Blocked, 2, 1),
            counted(EventType::KillSwitch, 3, 9),
        ];
        let loops = distribute(&counts, 1_000, 10, 3);
        let expected = [
            Loops { from_ms: 1_000, kills: 2, ..Loops::default() },
            Loops { from_ms: 1_010, ..Loops::default() },
            Loops { from_ms: 1_020, would_kills: 5, blocks: 1, ..Loops::default() },
        ];
        assert_eq!(loops, expected);
        assert_eq!(loops.iter().map(Loops::total).collect::<Vec<_>>(), [2, 0, 6]);
    }
}
