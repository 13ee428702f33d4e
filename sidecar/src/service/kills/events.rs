//! The events of kill reports.

use agent_kill_switch::wire::{KillReport, Scope, WHOLE_AGENT};
use serde_json::{Map, Value, json};

use super::Decision;
use crate::clock::rfc3339;
use crate::model::{Agent, EventType, KillOutcome, Millis, NewEvent, session_name};
use crate::service::answer_loops;

/// The members of a report that say nothing about a loop inside one answer, which has no score.
const NOT_OF_REPETITION: [&str; 9] = [
    "score",
    "threshold",
    "window_size",
    "counting",
    "similar_prompts",
    "similar_responses",
    "repeated_tool_calls",
    "tools",
    "matches",
];

/// Returns the event of a report.
pub(super) fn event(agent: &Agent, report: &KillReport, decision: &Decision) -> NewEvent {
    let event_type = match decision.outcome {
        KillOutcome::Applied | KillOutcome::Stopped | KillOutcome::Duplicate => EventType::KillSwitch,
        KillOutcome::Stale => EventType::KillStale,
        KillOutcome::Observed => EventType::WouldKill,
        KillOutcome::Blocked => EventType::Blocked,
    };
    NewEvent {
        at_ms: decision.at_ms,
        event_type,
        agent_id: report.agent_id.clone(),
        generation: report.generation,
        actor: "kill_switch".to_owned(),
        reason: reason(report),
        detail: detail(agent, report, decision),
    }
}

/// Returns the event of an agent that was deactivated because many of its conversations were stopped. The report is that
/// of the last one.
pub(super) fn escalated(agent: &Agent, report: &KillReport, reason: &str, at_ms: Millis) -> NewEvent {
    let members = [
        ("kill_id", json!(report.kill_id)),
        ("envoy", json!(report.envoy)),
        ("action", json!(report.action)),
        ("scope", json!(Scope::Agent)),
        ("escalate_after", json!(agent.policy.escalate_after)),
        ("deactivated_by", json!(agent.policy.deactivated_by)),
    ];
    NewEvent {
        at_ms,
        event_type: EventType::KillSwitch,
        agent_id: report.agent_id.clone(),
        generation: report.generation,
        actor: "kill_switch".to_owned(),
        reason: reason.to_owned(),
        detail: members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
    }
}

/// Returns the reason that the filter gave, or one made of its numbers.
pub(in crate::service) fn reason(report: &KillReport) -> String {
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

/// Returns every member of the report, and what the decision adds.
fn detail(agent: &Agent, report: &KillReport, decision: &Decision) -> Map<String, Value> {
    let mut detail = match serde_json::to_value(report) {
        Ok(Value::Object(detail)) => detail,
        _ => Map::new(),
    };
    // These have columns of their own, except the conversation, which is named below.
    for member in ["agent_id", "generation", "reason", "at_ms", "session", "repetition"] {
        detail.remove(member);
    }
    if let Some(repetition) = report.repetition {
        for member in NOT_OF_REPETITION {
            detail.remove(member);
        }
        detail.extend(answer_loops::members(repetition));
    }
    if let Some(calls) = &decision.calls {
        detail.insert("envoys".to_owned(), calls.clone());
    }
    if let Some(session) = report.session.as_ref().filter(|session| session.key != WHOLE_AGENT) {
        detail.insert("session".to_owned(), json!(session_name(session.id.as_deref(), &session.key)));
        detail.insert("session_key".to_owned(), json!(session.key));
    }
    if decision.is_spared {
        detail.insert("paused".to_owned(), json!(true));
    } else if let Some(stop) = &decision.stop {
        detail.insert("until".to_owned(), json!(rfc3339(stop.until_ms)));
    }
    detail.insert("detected_at".to_owned(), json!(rfc3339(decision.detected_ms)));
    match decision.outcome {
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
        KillOutcome::Stopped | KillOutcome::Observed | KillOutcome::Duplicate => {}
    }
    detail
}
