//! Kill reports. Each loop is recorded once, however many Envoys report it and however often.
//!
//! The outcome of a report depends on the generation in which it was made. State, event, alert and the record of the
//! report are written in one transaction: after a crash there are all of them or none, and a repeated report has the
//! right outcome in both cases. Evidence that is too long is cut rather than refused, so that no kill is lost because
//! of it. A report with the scope `session` stops one conversation: see [`super::sessions`].
//!
//! While the fleet is paused, nothing is stopped. An Envoy that has not heard of the pause in time may report a kill
//! nevertheless. Such a report is recorded as `would_kill`, and what the Envoy stopped is given back: the generation of the
//! agent rises, or the conversation is released. A kill that was detected before the pause is applied, however late it is
//! reported. Too many kills within a minute pause the fleet: see [`super::storm`].

mod events;

use std::sync::Arc;

use agent_kill_switch::wire::{Action, DeactivatedBy, KillReport, ReportedSession, Scope, WHOLE_AGENT};
use serde::Serialize;
use serde_json::{Value, json};

use super::agents::check_agent_id;
use super::policies::govern_new;
use super::sessions::{escalation, outcome_of_stop, spared, stop_of};
use super::{Error, Result, Service};
use crate::clock::reported_ms;
use crate::model::{Agent, KillOutcome, KillRecord, Millis, Pause, SessionStop};
use crate::store::Tx;
use events::{escalated, event};

pub(super) use events::reason;

/// The longest `kill_id`.
const MAX_KILL_ID: usize = 128;
/// How far the generation of a report may be ahead of the stored one. It is ahead only if the database was restored from a
/// backup, by the number of activations since. Without a limit, one invented report could use up all generations.
const MAX_GENERATIONS_AHEAD: u64 = 100_000;
/// The longest text of the evidence, in characters.
const MAX_TEXT: usize = 2_000;
/// The longest reason that filters are told, in characters.
const MAX_TOLD_REASON: usize = 300;
/// The longest id of a conversation, in characters.
const MAX_SESSION_ID: usize = 200;
/// The length of the key of a conversation, in hexadecimal digits.
const SESSION_KEY: usize = 16;
/// The largest number of tools in the evidence.
const MAX_TOOLS: usize = 32;
/// The largest number of matching calls in the evidence.
const MAX_MATCHES: usize = 100;

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KillReceipt {
    /// The id of the report.
    pub kill_id: String,
    /// What the report led to.
    pub outcome: KillOutcome,
    /// The agent.
    pub agent_id: String,
    /// The current generation of the agent.
    pub generation: u64,
    /// The event that records the kill.
    pub event_id: u64,
}

/// What a new report leads to.
struct Decision {
    outcome: KillOutcome,
    at_ms: Millis,
    /// When the loop was detected.
    detected_ms: Millis,
    /// For a duplicate, the event of the first report.
    first_event: Option<u64>,
    /// The stop of the conversation, if the report stops one.
    stop: Option<SessionStop>,
    /// Why the agent is deactivated together with its conversation, if it is.
    escalation: Option<String>,
    /// Whether the Envoy stopped something although the fleet is paused, so that it must be given back.
    is_spared: bool,
    /// How many calls each Envoy saw, if several saw parts of the loop.
    calls: Option<Value>,
}

impl Service {
    /// Accepts a report. Whatever the receipt says, the reporter must not send it again.
    pub async fn take_kill(&self, report: KillReport) -> Result<KillReceipt> {
        let scope = report.scope;
        let conversation = report.session.as_ref().and_then(|session| u64::from_str_radix(&session.key, 16).ok());
        let receipt = self.accept_kill(report, None).await?;
        if has_stopped(receipt.outcome) || receipt.outcome == KillOutcome::Observed {
            let is_whole_agent = scope == Scope::Agent && has_stopped(receipt.outcome);
            self.fleet.note_stopped(&receipt.agent_id, conversation.filter(|_| !is_whole_agent), self.now());
        }
        Ok(receipt)
    }

    /// Records a loop that the sidecar has found in the calls of several Envoys, with the number of calls that each saw.
    pub(super) async fn take_fleet_kill(&self, report: KillReport, calls: &[(Arc<str>, usize)]) -> Result<KillReceipt> {
        let of_envoy = |(envoy, calls): &(Arc<str>, usize)| json!({"envoy": **envoy, "calls": calls});
        self.accept_kill(report, Some(calls.iter().map(of_envoy).collect())).await
    }

    async fn accept_kill(&self, report: KillReport, calls: Option<Value>) -> Result<KillReceipt> {
        check(&report)?;
        let mut report = cut(report);
        let mut tx = self.store.begin().await?;
        if let Some(taken) = tx.kill(&report.kill_id).await? {
            return repeated(&report, taken);
        }
        let found = tx.agent(&report.agent_id).await?;
        check_generation(&report, found.as_ref())?;
        let mut agent = found.unwrap_or_else(|| Agent::new(&report.agent_id, report.generation));
        let (now_ms, pause) = (self.now(), tx.pause().await?);
        let is_paused = pause.as_ref().is_some_and(|pause| pause.is_in_force(now_ms));
        if calls.is_some() {
            complete(&mut tx, &mut report, is_paused).await?;
        }
        let decision = decide(&mut tx, &agent, &report, now_ms, pause.as_ref()).await?;
        let decision = Decision { calls, ..decision };
        let mut rev = self.change_state(&mut tx, &mut agent, &report, &decision).await?;
        let (outcome, event_id) = self.record_decision(&mut tx, &agent, &report, &decision).await?;
        let record = KillRecord {
            kill_id: report.kill_id,
            agent_id: report.agent_id,
            generation: report.generation,
            outcome,
            event_id,
            received_ms: decision.at_ms,
            detected_ms: decision.detected_ms,
            scope: report.scope,
        };
        tx.record_kill(&record).await?;
        if !is_paused
            && has_stopped(outcome)
            && let Some(paused_rev) = self.pause_in_storm(&mut tx, pause.as_ref(), record.detected_ms, now_ms).await?
        {
            rev = paused_rev;
            // The agent was probably given back.
            agent = tx.agent(&record.agent_id).await?.unwrap_or(agent);
        }
        self.commit(tx, rev).await?;
        tracing::info!(
            agent_id = record.agent_id,
            generation = record.generation,
            outcome = outcome.as_str(),
            kill_id = record.kill_id,
            "kill report accepted"
        );
        metrics::counter!("kill_switch_kills_total", "outcome" => outcome.as_str()).increment(1);
        Ok(receipt(record, agent.policy.generation))
    }

    /// Changes the agent as the decision demands. Returns the revision, or 0 if filters need not be told.
    async fn change_state(
        &self,
        tx: &mut Tx,
        agent: &mut Agent,
        report: &KillReport,
        decision: &Decision,
    ) -> Result<u64> {
        if matches!(decision.outcome, KillOutcome::Stale | KillOutcome::Duplicate) {
            return Ok(0);
        }
        let is_new = agent.rev == 0 || agent.deleted;
        if is_new {
            self.check_room(tx, agent.id()).await?;
            agent.discovered = true;
            govern_new(agent, &tx.policy_rules().await?);
        }
        let before = agent.policy.clone();
        // A higher generation means that this database was restored from an older backup.
        agent.policy.generation = agent.policy.generation.max(report.generation);
        agent.deleted = false;
        if decision.is_spared && decision.stop.is_none() && agent.policy.active {
            agent.policy.generation += 1;
        }
        let is_applied = decision.outcome == KillOutcome::Applied;
        let kill_reason = if is_applied { Some(reason(report)) } else { decision.escalation.clone() };
        if let Some(kill_reason) = kill_reason.filter(|_| agent.policy.active) {
            agent.policy.active = false;
            agent.policy.deactivated_by = Some(DeactivatedBy::KillSwitch);
            agent.policy.reason = Some(brief(&kill_reason));
        }
        let mut rev = 0;
        if is_new || agent.policy != before || decision.stop.is_some() {
            rev = tx.save_agent(agent).await?;
            agent.rev = rev;
        }
        tx.touch_agents(vec![(agent.id(), decision.detected_ms, decision.detected_ms)]).await?;
        Ok(rev)
    }

    /// Returns an error if traffic may not create another agent.
    async fn check_room(&self, tx: &mut Tx, agent_id: &str) -> Result<()> {
        let most = self.limits.max_discovered_agents;
        if tx.discovered_agents().await? < most {
            return Ok(());
        }
        metrics::counter!("kill_switch_agents_over_limit_total").increment(1);
        tracing::warn!(agent_id, most, "kill report refused: the agent is unknown, and traffic may not create another");
        let detail = format!(
            "agent_id ({agent_id}) must be a known agent, because traffic has created as many agents as it may: {most}"
        );
        Err(Error::invalid("agent_id", detail))
    }

    /// Records the events and the stop of the conversation. Returns the final outcome and its event.
    async fn record_decision(
        &self,
        tx: &mut Tx,
        agent: &Agent,
        report: &KillReport,
        decision: &Decision,
    ) -> Result<(KillOutcome, u64)> {
        if let Some(first) = decision.first_event {
            return Ok((decision.outcome, first));
        }
        let event_id = self.record(tx, &event(agent, report, decision)).await?;
        if let Some(stop) = &decision.stop {
            tx.add_stop(&SessionStop { event_id, ..stop.clone() }).await?;
        }
        match &decision.escalation {
            Some(reason) => {
                let event = escalated(agent, report, reason, decision.at_ms);
                Ok((KillOutcome::Applied, self.record(tx, &event).await?))
            }
            None => Ok((decision.outcome, event_id)),
        }
    }
}

/// Fills in what only an Envoy that stops something by itself knows: whether the fleet is paused, and how often the
/// conversation was let go on. A block of the whole agent becomes a stop, so that filters are told of it.
async fn complete(tx: &mut Tx, report: &mut KillReport, is_paused: bool) -> Result<()> {
    if is_paused && report.action != Action::Observe {
        (report.action, report.paused) = (Action::Observe, true);
    }
    if report.action == Action::Block && report.scope == Scope::Agent {
        report.session = Some(ReportedSession { key: WHOLE_AGENT.to_owned(), id: None, releases: 0 });
    }
    if let Some(session) = &mut report.session {
        let latest = tx.latest_stop(&report.agent_id, report.generation, &session.key).await?;
        session.releases = latest.map_or(0, |stop| stop.all_releases());
    }
    Ok(())
}

/// Whether a report blocks the agent on all Envoys.
fn blocks_everywhere(report: &KillReport) -> bool {
    report.scope == Scope::Agent && report.session.as_ref().is_some_and(|session| session.key == WHOLE_AGENT)
}

fn check(report: &KillReport) -> Result<()> {
    check_agent_id(&report.agent_id)?;
    let is_id = |c: char| c.is_ascii_graphic();
    if report.kill_id.is_empty() || report.kill_id.len() > MAX_KILL_ID || !report.kill_id.chars().all(is_id) {
        let detail = format!("kill_id must be 1 to {MAX_KILL_ID} visible ASCII characters");
        return Err(Error::invalid("kill_id", detail));
    }
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    let is_key = |session: &ReportedSession| session.key.len() == SESSION_KEY && session.key.chars().all(is_digit);
    match &report.session {
        None if report.scope == Scope::Session => {
            Err(Error::invalid("session", "session must name the conversation if the scope is session"))
        }
        Some(session) if !is_key(session) => {
            let detail = format!("session.key must be {SESSION_KEY} hexadecimal digits in lower case");
            Err(Error::invalid("session.key", detail))
        }
        _ => Ok(()),
    }
}

fn check_generation(report: &KillReport, agent: Option<&Agent>) -> Result<()> {
    let current = agent.map_or(0, |agent| agent.policy.generation);
    let highest = current.saturating_add(MAX_GENERATIONS_AHEAD);
    if report.generation <= highest {
        return Ok(());
    }
    let detail = format!("generation ({}) must be at most {highest}: the agent's is {current}", report.generation);
    Err(Error::invalid("generation", detail))
}

fn cut(mut report: KillReport) -> KillReport {
    let shorten = |text: &mut String| truncate(text, MAX_TEXT);
    shorten(&mut report.reason);
    shorten(&mut report.envoy);
    report.excerpt.as_mut().map(shorten);
    if let Some(session) = &mut report.session {
        session.id = session.id.take().filter(|id| !id.is_empty()).map(|id| session_id(&id));
    }
    report.tools.truncate(MAX_TOOLS);
    report.tools.iter_mut().for_each(shorten);
    report.matches.truncate(MAX_MATCHES);
    report.matches.iter_mut().for_each(|matched| shorten(&mut matched.prompt_hash));
    report
}

fn truncate(text: &mut String, max_chars: usize) {
    if let Some((end, _)) = text.char_indices().nth(max_chars) {
        text.truncate(end);
    }
}

/// Returns the id of a conversation in a form that fits into one line. It may come from a client.
fn session_id(id: &str) -> String {
    id.chars().take(MAX_SESSION_ID).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns a reason that is short enough for the filters, which keep it in memory.
pub(super) fn brief(reason: &str) -> String {
    let mut brief = reason.to_owned();
    truncate(&mut brief, MAX_TOLD_REASON);
    brief
}

/// Answers a report that was accepted before. Nothing is written.
fn repeated(report: &KillReport, taken: KillRecord) -> Result<KillReceipt> {
    if taken.agent_id != report.agent_id {
        return Err(Error::Conflict { field: "kill_id", id: taken.kill_id });
    }
    metrics::counter!("kill_switch_kills_total", "outcome" => KillOutcome::Duplicate.as_str()).increment(1);
    let generation = taken.generation;
    Ok(receipt(KillRecord { outcome: KillOutcome::Duplicate, ..taken }, generation))
}

fn receipt(record: KillRecord, generation: u64) -> KillReceipt {
    KillReceipt {
        kill_id: record.kill_id,
        outcome: record.outcome,
        agent_id: record.agent_id,
        generation,
        event_id: record.event_id,
    }
}

async fn decide(
    tx: &mut Tx,
    agent: &Agent,
    report: &KillReport,
    at_ms: Millis,
    pause: Option<&Pause>,
) -> Result<Decision> {
    let detected_ms = detected_ms(report, at_ms);
    let (outcome, first_event) = outcome_of(tx, agent, report, at_ms).await?;
    let concerns_stop = report.scope == Scope::Session || blocks_everywhere(report);
    let stops = matches!(outcome, KillOutcome::Stopped | KillOutcome::Blocked) && concerns_stop;
    let session = report.session.as_ref().filter(|_| stops);
    let stop = session.map(|session| stop_of(agent, report, session, at_ms));
    if has_stopped(outcome) && pause.is_some_and(|pause| pause.spares(detected_ms, at_ms)) {
        let stop = stop.map(|stop| spared(stop, agent, at_ms));
        let outcome = KillOutcome::Observed;
        let (escalation, calls) = (None, None);
        return Ok(Decision { outcome, at_ms, detected_ms, first_event, stop, escalation, is_spared: true, calls });
    }
    let escalation = match &stop {
        Some(stop) => escalation(tx, agent, stop).await?,
        None => None,
    };
    Ok(Decision { outcome, at_ms, detected_ms, first_event, stop, escalation, is_spared: false, calls: None })
}

/// Returns when a loop was detected, by the clock of the sidecar. Storms and pauses compare this time with the sidecar's own,
/// so the clock of the Envoy's machine counts only if an older filter sends nothing else.
fn detected_ms(report: &KillReport, now_ms: Millis) -> Millis {
    let waited = |waited_ms| now_ms.saturating_sub(waited_ms);
    report.waited_ms.map_or_else(|| reported_ms(report.at_ms, now_ms), waited)
}

/// Whether a report with this outcome stopped an agent or a conversation.
fn has_stopped(outcome: KillOutcome) -> bool {
    matches!(outcome, KillOutcome::Applied | KillOutcome::Stopped | KillOutcome::Blocked)
}

/// Returns what a new report leads to, and for a duplicate the event of the first report.
async fn outcome_of(
    tx: &mut Tx,
    agent: &Agent,
    report: &KillReport,
    now_ms: Millis,
) -> Result<(KillOutcome, Option<u64>)> {
    let current = agent.policy.generation;
    if report.generation < current || (agent.deleted && report.generation == current) {
        return Ok((KillOutcome::Stale, None));
    }
    Ok(match (report.action, report.scope, &report.session) {
        (Action::Observe, _, _) => (KillOutcome::Observed, None),
        (_, Scope::Session, Some(session)) => outcome_of_stop(tx, report, session, now_ms).await?,
        (Action::Block, _, Some(session)) if blocks_everywhere(report) => {
            outcome_of_stop(tx, report, session, now_ms).await?
        }
        // A generation may be blocked several times, so only reports with the same id are duplicates.
        (Action::Block, _, _) => (KillOutcome::Blocked, None),
        (Action::Deactivate, _, _) => match tx.applied_kill(&report.agent_id, report.generation).await? {
            Some(first) => (KillOutcome::Duplicate, Some(first.event_id)),
            None => (KillOutcome::Applied, None),
        },
    })
}
