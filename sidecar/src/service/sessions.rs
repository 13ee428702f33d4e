//! Stopped conversations: with the scope `session`, a loop stops only its conversation, and the agent goes on.
//!
//! However many Envoys report it, a conversation is stopped once, until its stop is over or a person lets it go on. Each
//! time a person does, the number of its *releases* rises. An Envoy reports a stop with the number that it knows, so a
//! report from before a release is recognised. Stops and releases reach the filters as part of the agent's policy, and
//! stops belong to one generation, so activating the agent ends all of them.
//!
//! If many conversations of one agent are stopped within an hour, the agent itself is what loops, and it is deactivated.

use std::time::Duration;

use agent_kill_switch::policy::MAX_STOPPED_SESSIONS;
use agent_kill_switch::wire::{Action, AgentPolicy, KillReport, ReportedSession, WHOLE_AGENT};
use serde_json::json;

use super::agents::{Caller, Note};
use super::kills::{brief, reason};
use super::{Error, Result, Service, millis};
use crate::model::{Agent, EventType, KillOutcome, Millis, SessionStop, session_name};
use crate::store::{StopQuery, Tx};

/// The time within which stopped conversations are counted.
const ESCALATION_PERIOD: Duration = Duration::from_secs(3600);

/// How far the releases of a report may be ahead of the stored ones, for the same reason as its generation.
const MAX_RELEASES_AHEAD: u32 = 1_000;

/// Returns what a report about one conversation leads to, and for a duplicate the event of the first report.
pub(super) async fn outcome_of_stop(
    tx: &mut Tx,
    report: &KillReport,
    session: &ReportedSession,
    now_ms: Millis,
) -> Result<(KillOutcome, Option<u64>)> {
    let latest = tx.latest_stop(&report.agent_id, report.generation, &session.key).await?;
    let highest = latest.as_ref().map_or(0, SessionStop::all_releases).saturating_add(MAX_RELEASES_AHEAD);
    if session.releases > highest {
        let detail = format!("session.releases ({}) must be at most {highest}", session.releases);
        return Err(Error::invalid("session.releases", detail));
    }
    let is_known = |stop: &SessionStop| {
        let is_outdated = session.releases < stop.all_releases();
        is_outdated || (session.releases == stop.releases && stop.is_in_force(now_ms))
    };
    Ok(match latest.filter(is_known) {
        Some(first) => (KillOutcome::Duplicate, Some(first.event_id)),
        None if report.action == Action::Block => (KillOutcome::Blocked, None),
        None => (KillOutcome::Stopped, None),
    })
}

/// Returns the stop that a report about one conversation causes.
pub(super) fn stop_of(agent: &Agent, report: &KillReport, session: &ReportedSession, now_ms: Millis) -> SessionStop {
    let seconds = match report.action {
        Action::Block => agent.policy.retry_after_seconds,
        Action::Deactivate | Action::Observe => agent.policy.session_stop_seconds,
    };
    let until_ms = now_ms.saturating_add(Millis::from(seconds) * 1_000);
    SessionStop {
        id: 0,
        agent_id: report.agent_id.clone(),
        generation: report.generation,
        session_key: session.key.clone(),
        session_id: session.id.clone(),
        releases: session.releases,
        kill_id: report.kill_id.clone(),
        event_id: 0,
        action: report.action,
        reason: brief(&reason(report)),
        stopped_ms: now_ms,
        until_ms,
        told_until_ms: until_ms,
        released: None,
    }
}

/// Returns a stop after `actor` has let the conversation go on.
pub(super) fn release(stop: SessionStop, agent: &Agent, now_ms: Millis, actor: &str) -> SessionStop {
    // An Envoy may have made the same stop by itself, and keeps it for this long.
    let lifetime_ms = Millis::from(agent.policy.session_stop_seconds) * 1_000;
    SessionStop {
        told_until_ms: stop.until_ms.max(now_ms.saturating_add(lifetime_ms)),
        released: Some((now_ms, actor.to_owned())),
        ..stop
    }
}

/// Returns the stop that tells the Envoy which made it, although the fleet is paused, that it is over. It is written as a
/// short block, so that it does not count among the stops that deactivate the agent.
pub(super) fn spared(stop: SessionStop, agent: &Agent, now_ms: Millis) -> SessionStop {
    SessionStop { action: Action::Block, ..release(stop, agent, now_ms, "pause") }
}

/// Returns why the agent itself is deactivated together with a stop, if as many conversations were stopped as its policy
/// says.
pub(super) async fn escalation(tx: &mut Tx, agent: &Agent, stop: &SessionStop) -> Result<Option<String>> {
    let AgentPolicy { active, escalate_after, .. } = agent.policy;
    if !active || escalate_after == 0 || stop.action != Action::Deactivate {
        return Ok(None);
    }
    let since_ms = stop.stopped_ms.saturating_sub(millis(ESCALATION_PERIOD));
    let stopped = tx.other_stopped_sessions(stop, since_ms).await? + 1;
    let were = if stopped == 1 { "conversation of this agent was" } else { "conversations of this agent were" };
    let reason = format!("{stopped} {were} stopped within an hour");
    Ok((stopped >= u64::from(escalate_after)).then_some(reason))
}

impl Service {
    /// Returns a page of the conversations of an agent that are stopped now, newest first. `before` is the number of the
    /// last stop on the page before.
    pub async fn stopped_sessions(&self, agent_id: &str, before: Option<u64>, limit: u32) -> Result<Vec<SessionStop>> {
        let generation = self.agent(agent_id).await?.policy.generation;
        let query = StopQuery { agent_id: agent_id.to_owned(), generation, at_ms: self.now(), before, limit };
        Ok(self.store.stops(&query).await?)
    }

    /// Lets a stopped conversation go on. Its window starts empty.
    pub async fn resume_session(
        &self,
        agent_id: &str,
        session_key: &str,
        note: &Note,
        caller: &Caller,
    ) -> Result<SessionStop> {
        let mut edit = self.edit(agent_id, caller).await?;
        let agent = edit.existing()?;
        let now_ms = self.now();
        let latest = edit.tx.latest_stop(agent_id, agent.policy.generation, session_key).await?;
        let not_found = || Error::NotFound { what: "stopped conversation", id: session_key.to_owned() };
        let is_stopped = |stop: &SessionStop| stop.is_in_force(now_ms) && stop.session_key != WHOLE_AGENT;
        let stop = latest.filter(is_stopped).ok_or_else(not_found)?;
        let stop = release(stop, &agent, now_ms, &edit.actor);
        edit.tx.release_stop(&stop).await?;
        let session = session_name(stop.session_id.as_deref(), &stop.session_key);
        let detail = json!({"session": session, "session_key": stop.session_key});
        self.save(edit, agent, EventType::SessionResumed, (note, detail)).await?;
        Ok(stop)
    }

    /// Fills in the stopped conversations of policies that filters are about to be told.
    pub(super) async fn add_stopped_sessions(&self, policies: &mut [AgentPolicy]) -> Result<()> {
        if policies.is_empty() {
            return Ok(());
        }
        let now_ms = self.now();
        // Few agents have any, so the others are not asked for one by one.
        let agents = self.store.agents_with_stops(now_ms).await?;
        for policy in policies.iter_mut().filter(|policy| agents.contains(&policy.agent_id)) {
            let (id, generation) = (&policy.agent_id, policy.generation);
            let stops = self.store.told_stops(id, generation, now_ms, MAX_STOPPED_SESSIONS).await?;
            // The filter forgets the first ones if it has to make room for stops of its own.
            policy.stopped_sessions = stops.iter().rev().map(|stop| stop.told(now_ms)).collect();
        }
        Ok(())
    }
}
