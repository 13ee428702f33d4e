//! A storm of kills: if more is stopped within a minute than a fleet can have loops, the detector or a change of the agents'
//! surroundings is at fault, and the kill switch must not take all of them down.
//!
//! Whatever kill reports stopped is counted: agents that were deactivated, conversations that were stopped, and agents that
//! were blocked, each of them once. What a person stopped is not. What matters is when the loops were detected: after an
//! outage, Envoys report the kills of hours at once, and that is no storm.
//!
//! The count is made from the reports in the database, inside the transaction of the report that exceeds it, so it is the
//! same at every replica, and one report pauses the fleet. The pause, its event, its alert, and giving back what was
//! stopped in that minute are part of the same transaction.

use std::collections::BTreeSet;
use std::time::Duration;

use agent_kill_switch::wire::{AgentPolicy, DeactivatedBy};
use serde_json::{Map, Value, json};

use super::pause::KILL_SWITCH;
use super::sessions::release;
use super::{Result, Service, millis};
use crate::clock::CLOCK_TOLERANCE_MS;
use crate::model::{Agent, EventType, KillOutcome, Millis, NewEvent, Pause, PauseCause, SessionStop, session_name};
use crate::store::{Stopped, Tx};

/// The time within which kills are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// How many agents the event of the pause names.
const MAX_NAMED: usize = 100;

/// What was given back.
#[derive(Default)]
struct GivenBack {
    agents: Vec<String>,
    sessions: usize,
}

impl Service {
    /// Pauses the fleet if a loop that was detected at this time is part of a storm, and gives back what was stopped in it.
    /// `latest` is the latest pause, which is over: what was stopped before it ended does not count again. Returns the
    /// revision if there is a storm.
    pub(super) async fn pause_in_storm(
        &self,
        tx: &mut Tx,
        latest: Option<&Pause>,
        detected_ms: Millis,
        now_ms: Millis,
    ) -> Result<Option<u64>> {
        let most = u64::from(self.limits.storm_kills);
        if most == 0 {
            return Ok(None);
        }
        // An end that lies further ahead is from before the clock was set back.
        let latest_end_ms = now_ms.saturating_add(CLOCK_TOLERANCE_MS);
        let ended_ms =
            latest.map(|pause| pause.ended_ms.unwrap_or(pause.until_ms)).filter(|ended_ms| *ended_ms <= latest_end_ms);
        // Reports may arrive in any order, so the minute ends with the last loop that was detected within a minute of this.
        let last_ms = tx.last_detection(detected_ms, detected_ms.saturating_add(millis(PERIOD))).await?;
        let until_ms = last_ms.unwrap_or(detected_ms);
        let since_ms = until_ms.saturating_sub(millis(PERIOD)).max(ended_ms.unwrap_or_default());
        let kills = tx.count_stopped(since_ms, until_ms).await?;
        if kills <= most {
            return Ok(None);
        }
        let given_back = give_back(tx, (since_ms, until_ms), now_ms).await?;
        let mut pause = Pause {
            since_ms: now_ms,
            until_ms: now_ms.saturating_add(millis(self.limits.storm_pause)),
            // The rest of the storm may be reported later.
            spares_after_ms: since_ms.min(now_ms.saturating_sub(CLOCK_TOLERANCE_MS)),
            cause: PauseCause::Storm,
            actor: KILL_SWITCH.to_owned(),
            by: None,
            reason: format!("{kills} kills within a minute, which is more than {most}"),
            event_id: 0,
            ended_ms: None,
        };
        let named: Vec<_> = given_back.agents.iter().take(MAX_NAMED).collect();
        let detail = Map::from_iter([
            ("kills".to_owned(), json!(kills)),
            ("agents_given_back".to_owned(), json!(given_back.agents.len())),
            ("sessions_given_back".to_owned(), json!(given_back.sessions)),
            ("given_back".to_owned(), json!(named)),
        ]);
        let rev = self.begin_pause(tx, &mut pause, detail).await?;
        tracing::error!(
            kills,
            agents = given_back.agents.len(),
            sessions = given_back.sessions,
            "a storm of kills: the fleet is paused, and what was stopped is given back"
        );
        Ok(Some(rev))
    }
}

/// Gives back every agent and every conversation that kill reports stopped in a range of time.
///
/// This raises the generation of the agents, as an activation does, so that the Envoys that stopped them follow.
async fn give_back(tx: &mut Tx, (since_ms, until_ms): (Millis, Millis), now_ms: Millis) -> Result<GivenBack> {
    let mut given_back = GivenBack::default();
    let mut with_sessions = BTreeSet::new();
    for stopped in tx.stopped(since_ms, until_ms).await? {
        let Some(mut agent) = tx.agent(&stopped.agent_id).await?.filter(|agent| !agent.deleted) else { continue };
        if stopped.is_session {
            with_sessions.insert(stopped.agent_id);
        } else if let Some(detail) = state_to_end(&agent.policy, &stopped) {
            agent.policy.active = true;
            agent.policy.deactivated_by = None;
            agent.policy.reason = None;
            agent.policy.generation += 1;
            tx.save_agent(&agent).await?;
            tx.append_event(&event(&agent, EventType::Activated, now_ms, detail)).await?;
            given_back.agents.push(stopped.agent_id);
        }
    }
    let stops = tx.stops_made(since_ms, until_ms).await?;
    for agent_id in with_sessions {
        given_back.sessions += give_back_sessions(tx, &agent_id, &stops, now_ms).await?;
    }
    Ok(given_back)
}

/// Returns the detail of the event that gives an agent back, or `None` if a person has decided about the agent since.
fn state_to_end(policy: &AgentPolicy, stopped: &Stopped) -> Option<Value> {
    let is_same = policy.generation == stopped.generation;
    match (policy.active, policy.deactivated_by, stopped.outcome) {
        _ if !is_same => None,
        (false, Some(by @ DeactivatedBy::KillSwitch), _) => Some(json!({"was_deactivated_by": by})),
        (true, _, KillOutcome::Blocked) => Some(json!({"was_blocked": true})),
        _ => None,
    }
}

/// Lets the stopped conversations of an agent go on. An agent that was given back itself has none any more. Returns their
/// number.
async fn give_back_sessions(tx: &mut Tx, agent_id: &str, stops: &[SessionStop], now_ms: Millis) -> Result<usize> {
    let Some(agent) = tx.agent(agent_id).await? else { return Ok(0) };
    let is_stopped = |stop: &&SessionStop| {
        stop.agent_id == agent_id && stop.generation == agent.policy.generation && stop.is_in_force(now_ms)
    };
    let stops: Vec<_> = stops.iter().filter(is_stopped).cloned().collect();
    for stop in &stops {
        let stop = release(stop.clone(), &agent, now_ms, KILL_SWITCH);
        tx.release_stop(&stop).await?;
        let session = session_name(stop.session_id.as_deref(), &stop.session_key);
        let detail = json!({"session": session, "session_key": stop.session_key});
        tx.append_event(&event(&agent, EventType::SessionResumed, now_ms, detail)).await?;
    }
    if !stops.is_empty() {
        tx.save_agent(&agent).await?;
    }
    Ok(stops.len())
}

/// Returns the event of giving something back. It leads to no notice of its own: that of the pause says how many there are.
fn event(agent: &Agent, event_type: EventType, at_ms: Millis, detail: Value) -> NewEvent {
    let mut detail = detail.as_object().cloned().unwrap_or_default();
    detail.insert("storm".to_owned(), json!(true));
    NewEvent {
        at_ms,
        event_type,
        agent_id: agent.id().to_owned(),
        generation: agent.policy.generation,
        actor: KILL_SWITCH.to_owned(),
        reason: "given back, because a storm of kills paused the fleet".to_owned(),
        detail,
    }
}
