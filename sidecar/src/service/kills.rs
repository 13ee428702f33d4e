//! Kill reports. Each loop is recorded once, however many Envoys report it and however often.
//!
//! The outcome of a report depends on the generation in which it was made. State, event, alert and the record of the
//! report are written in one transaction: after a crash there are all of them or none, and a repeated report has the
//! right outcome in both cases. Evidence that is too long is cut rather than refused, so that no kill is lost because
//! of it.

use agent_kill_switch::wire::{Action, DeactivatedBy, KillReport};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::agents::check_agent_id;
use super::{Error, Result, Service};
use crate::clock::rfc3339;
use crate::model::{Agent, EventType, KillOutcome, KillRecord, Millis, NewEvent};
use crate::store::Tx;

/// The longest `kill_id`.
const MAX_KILL_ID: usize = 128;
/// The highest generation. JSON numbers above it are not exact.
const MAX_GENERATION: u64 = 1 << 53;
/// The longest text of the evidence, in characters.
const MAX_TEXT: usize = 2_000;
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

impl Service {
    /// Accepts a report. Whatever the receipt says, the reporter must not send it again.
    pub async fn take_kill(&self, report: KillReport) -> Result<KillReceipt> {
        check(&report)?;
        let report = cut(report);
        let now_ms = self.now();
        let mut tx = self.store.begin().await?;
        if let Some(taken) = tx.kill(&report.kill_id).await? {
            return repeated(&report, taken);
        }
        let found = tx.agent(&report.agent_id).await?;
        let (outcome, event_id) = outcome_of(&mut tx, found.as_ref(), &report).await?;

        let mut agent = found.unwrap_or_else(|| Agent::new(&report.agent_id, report.generation));
        let rev = self.change_state(&mut tx, &mut agent, &report, outcome).await?;
        let event_id = match event_id {
            Some(first) => first,
            None => self.record(&mut tx, &event(&agent, &report, outcome, now_ms)).await?,
        };
        let record = KillRecord {
            kill_id: report.kill_id,
            agent_id: report.agent_id,
            generation: report.generation,
            outcome,
            event_id,
            received_ms: now_ms,
        };
        tx.record_kill(&record).await?;
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

    /// Changes the agent as the outcome demands. Returns the revision, or 0 if filters need not be told.
    async fn change_state(
        &self,
        tx: &mut Tx,
        agent: &mut Agent,
        report: &KillReport,
        outcome: KillOutcome,
    ) -> Result<u64> {
        if matches!(outcome, KillOutcome::Stale | KillOutcome::Duplicate) {
            return Ok(0);
        }
        let is_new = agent.rev == 0;
        let before = agent.policy.clone();
        // A higher generation means that this database was restored from an older backup.
        agent.policy.generation = agent.policy.generation.max(report.generation);
        agent.deleted = false;
        if outcome == KillOutcome::Applied && agent.policy.active {
            agent.policy.active = false;
            agent.policy.deactivated_by = Some(DeactivatedBy::KillSwitch);
        }
        let mut rev = 0;
        if is_new || agent.policy != before {
            rev = tx.save_agent(agent).await?;
            agent.rev = rev;
        }
        let at_ms = if report.at_ms == 0 { self.now() } else { report.at_ms.min(self.now()) };
        tx.touch_agent(agent.id(), at_ms, at_ms).await?;
        Ok(rev)
    }
}

fn check(report: &KillReport) -> Result<()> {
    check_agent_id(&report.agent_id)?;
    let is_id = |c: char| c.is_ascii_graphic();
    if report.kill_id.is_empty() || report.kill_id.len() > MAX_KILL_ID || !report.kill_id.chars().all(is_id) {
        let detail = format!("kill_id must be 1 to {MAX_KILL_ID} visible ASCII characters");
        return Err(Error::invalid("kill_id", detail));
    }
    if report.generation > MAX_GENERATION {
        return Err(Error::invalid("generation", format!("generation must be at most {MAX_GENERATION}")));
    }
    Ok(())
}

fn cut(mut report: KillReport) -> KillReport {
    let shorten = |text: &mut String| {
        if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
            text.truncate(end);
        }
    };
    shorten(&mut report.reason);
    shorten(&mut report.envoy);
    report.excerpt.as_mut().map(shorten);
    report.tools.truncate(MAX_TOOLS);
    report.tools.iter_mut().for_each(shorten);
    report.matches.truncate(MAX_MATCHES);
    report.matches.iter_mut().for_each(|matched| shorten(&mut matched.prompt_hash));
    report
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

/// Returns what a new report leads to, and for a duplicate the event of the first report.
async fn outcome_of(tx: &mut Tx, agent: Option<&Agent>, report: &KillReport) -> Result<(KillOutcome, Option<u64>)> {
    let is_over = |agent: &Agent| {
        let current = agent.policy.generation;
        report.generation < current || (agent.deleted && report.generation == current)
    };
    if agent.is_some_and(is_over) {
        return Ok((KillOutcome::Stale, None));
    }
    Ok(match report.action {
        Action::Observe => (KillOutcome::Observed, None),
        // A generation may be blocked several times, so only reports with the same id are duplicates.
        Action::Block => (KillOutcome::Blocked, None),
        Action::Deactivate => match tx.applied_kill(&report.agent_id, report.generation).await? {
            Some(first) => (KillOutcome::Duplicate, Some(first.event_id)),
            None => (KillOutcome::Applied, None),
        },
    })
}

fn event(agent: &Agent, report: &KillReport, outcome: KillOutcome, now_ms: Millis) -> NewEvent {
    let event_type = match outcome {
        KillOutcome::Applied | KillOutcome::Duplicate => EventType::KillSwitch,
        KillOutcome::Stale => EventType::KillStale,
        KillOutcome::Observed => EventType::WouldKill,
        KillOutcome::Blocked => EventType::Blocked,
    };
    NewEvent {
        at_ms: now_ms,
        event_type,
        agent_id: report.agent_id.clone(),
        generation: report.generation,
        actor: "kill_switch".to_owned(),
        reason: reason(report),
        detail: detail(agent, report, outcome),
    }
}

/// Returns the reason that the filter gave, or one made of its numbers.
fn reason(report: &KillReport) -> String {
    if !report.reason.is_empty() {
        return report.reason.clone();
    }
    let signals = report.signals;
    format!(
        "score {} exceeded {}: {} similar prompts, {} similar responses, {} repeated tool calls in the last {} calls",
        report.score,
        report.threshold,
        signals.similar_prompts,
        signals.similar_responses,
        signals.repeated_tool_calls,
        report.window_size
    )
}

/// Returns every member of the report, and what the outcome adds.
fn detail(agent: &Agent, report: &KillReport, outcome: KillOutcome) -> Map<String, Value> {
    let mut detail = match serde_json::to_value(report) {
        Ok(Value::Object(detail)) => detail,
        _ => Map::new(),
    };
    // These have columns of their own.
    for member in ["agent_id", "generation", "reason", "at_ms"] {
        detail.remove(member);
    }
    detail.insert("detected_at".to_owned(), json!(rfc3339(report.at_ms)));
    match outcome {
        KillOutcome::Applied => {
            detail.insert("deactivated_by".to_owned(), json!(agent.policy.deactivated_by));
        }
        KillOutcome::Blocked => {
            detail.insert("blocked".to_owned(), json!(true));
            detail.insert("block_reason".to_owned(), json!("loop_detected"));
            detail.insert("retry_after_seconds".to_owned(), json!(agent.policy.retry_after_seconds));
        }
        KillOutcome::Stale => {
            detail.insert("current_generation".to_owned(), json!(agent.policy.generation));
        }
        KillOutcome::Observed | KillOutcome::Duplicate => {}
    }
    detail
}
