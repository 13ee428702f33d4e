//! A detected loop, as it is told to the operator and to the sidecar.

use super::outbox;
use crate::agent::record::session_key;
use crate::agent::{Agent, Scored};
use crate::detect::verdict::Verdict;
use crate::host::Host;
use crate::metrics::Metric;
use crate::turn::{Conversation, Turn};
use crate::wire::{Action, KillReport, Match, ReportedSession, Scope};
use crate::worker::Worker;

/// How many matching calls a report lists.
const MAX_MATCHES: usize = 20;

/// What the report of a loop says in addition to the score.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// The call that showed the loop.
    pub turn: &'a Turn,
    /// When it came, in milliseconds since 1970.
    pub at_ms: u64,
    /// The beginning of the repeated input, if the operator asked for it.
    pub excerpt: Option<String>,
    /// The explanation in words.
    pub reason: String,
    /// The past calls that the call repeated, the latest first.
    pub matches: Vec<Match>,
    /// How often the conversation had been let go on before.
    pub releases: u32,
    /// Whether nothing was stopped only because the fleet is paused.
    pub paused: bool,
}

/// Counts and logs a loop, and puts its report into the outbox.
pub fn report(host: &impl Host, worker: &Worker, agent: &Agent, scored: &Scored, findings: Findings<'_>) {
    let conversation = &findings.turn.conversation;
    let scope = agent.scope(conversation);
    let (action, metric, outcome) = match (scored.verdict, scope) {
        (Verdict::Kill, Scope::Agent) => (Action::Deactivate, Metric::Kills, "deactivated"),
        (Verdict::Block, Scope::Agent) => (Action::Block, Metric::Blocks, "blocked"),
        (Verdict::Kill, Scope::Session) => (Action::Deactivate, Metric::SessionsStopped, "stopped in one conversation"),
        (Verdict::Block, Scope::Session) => (Action::Block, Metric::SessionsStopped, "blocked in one conversation"),
        (Verdict::WouldKill | Verdict::Allow, _) => (Action::Observe, Metric::WouldKills, "would have been stopped"),
    };
    host.count(metric, 1);
    let session = conversation.key().map(|key| ReportedSession {
        key: session_key(key),
        id: match conversation {
            Conversation::Identified { id, .. } => Some(id.clone()),
            Conversation::Continued { .. } | Conversation::New { .. } => None,
        },
        releases: findings.releases,
    });
    let record = &agent.record;
    let Findings { reason, mut matches, .. } = findings;
    matches.truncate(MAX_MATCHES);
    let (score, threshold) = (scored.score, record.threshold);
    // A number shows itself with code that the module has anyway. Formatting an `f64` would add 20 KB.
    let shown = serde_json::Number::from_f64(threshold).map(|number| number.to_string()).unwrap_or_default();
    let shown = shown.strip_suffix(".0").unwrap_or(&shown);
    log::warn!("agent {} {outcome}: {reason} (score {score}, threshold {shown})", agent.id());
    let report = KillReport {
        kill_id: format!("{:016x}{:016x}", host.random(), host.random()),
        agent_id: agent.id().to_owned(),
        generation: record.generation,
        action,
        paused: findings.paused,
        scope,
        session,
        envoy: worker.envoy.clone(),
        at_ms: findings.at_ms,
        score: score.value(),
        threshold,
        window_size: record.window_size,
        counting: record.counting,
        signals: score.signals,
        reason,
        tools: findings.turn.tool_names.clone(),
        matches,
        excerpt: findings.excerpt,
    };
    outbox::put(host, worker, report);
}
