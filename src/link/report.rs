//! A detected loop, as it is told to the operator and to the sidecar.

use super::outbox;
use crate::agent::record::session_key;
use crate::agent::{Agent, Scored, Trip};
use crate::detect::verdict::Verdict;
use crate::host::Host;
use crate::metrics::Metric;
use crate::turn::Conversation;
use crate::wire::{Action, KillReport, Match, ReportedSession, Scope};
use crate::worker::Worker;

/// What a report that is kept begins with. The steady time of the detection follows.
pub const STEADY_MS: &str = "{\"steady_ms\":";
/// How many matching calls a report lists.
const MAX_MATCHES: usize = 20;

/// What a loop leads to: the action, what is counted, and how the log puts it.
fn consequence(verdict: Verdict, scope: Scope) -> (Action, Metric, &'static str) {
    match (verdict, scope) {
        (Verdict::Kill, Scope::Agent) => (Action::Deactivate, Metric::Kills, "deactivated"),
        (Verdict::Block, Scope::Agent) => (Action::Block, Metric::Blocks, "blocked"),
        (Verdict::Kill, Scope::Session) => (Action::Deactivate, Metric::SessionsStopped, "stopped in one conversation"),
        (Verdict::Block, Scope::Session) => (Action::Block, Metric::SessionsStopped, "blocked in one conversation"),
        (Verdict::WouldKill | Verdict::Allow, _) => (Action::Observe, Metric::WouldKills, "would have been stopped"),
    }
}

/// Creates the report of a loop, without its evidence.
#[inline(never)]
pub fn report(
    host: &impl Host,
    worker: &Worker,
    agent: &Agent,
    scored: &Scored,
    conversation: &Conversation,
    reason: String,
) -> KillReport {
    let scope = agent.scope(conversation);
    let session = conversation.key().map(|key| ReportedSession {
        key: session_key(key),
        id: match conversation {
            Conversation::Identified { id, .. } => Some(id.clone()),
            Conversation::Continued { .. } | Conversation::New { .. } => None,
        },
        releases: 0,
    });
    let record = &agent.record;
    KillReport {
        kill_id: format!("{:016x}{:016x}", host.random(), host.random()),
        agent_id: agent.id().to_owned(),
        generation: record.generation,
        action: consequence(scored.verdict, scope).0,
        paused: false,
        scope,
        session,
        envoy: worker.envoy.clone(),
        at_ms: host.now_ms(),
        score: scored.score.value(),
        threshold: record.threshold,
        window_size: record.window_size,
        counting: record.counting,
        signals: scored.score.signals,
        reason,
        tools: Vec::new(),
        matches: Vec::new(),
        loop_calls: 0,
        loop_usage: None,
        excerpt: None,
        repetition: None,
        waited_ms: None,
    }
}

/// Encodes a report as one line of JSON, in the form in which it is kept until it is sent. The outbox then replaces the
/// steady time at its beginning by the time that the report has waited, because the sidecar has another clock.
#[inline(never)]
pub fn encode(host: &impl Host, report: &KillReport) -> String {
    let json = serde_json::to_string(report).unwrap_or_default();
    [STEADY_MS, &host.steady_ms().to_string(), ",", json.strip_prefix('{').unwrap_or_default()].concat()
}

/// What shows that there was a loop.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The names of the tools that were called.
    pub tools: Vec<String>,
    /// The past calls that the call repeated, the latest first.
    pub matches: Vec<Match>,
    /// The beginning of the repeated input, if the operator asked for it.
    pub excerpt: Option<String>,
}

/// Acts on a loop. If this worker is the one that acted, the report is sent with its evidence and the excerpt.
#[inline(never)]
pub fn act(
    host: &impl Host,
    agent: &Agent,
    scored: &Scored,
    conversation: &Conversation,
    mut report: KillReport,
    evidence: Evidence,
    excerpt: &dyn Fn() -> Option<String>,
) -> Trip {
    let trip = agent.trip(host, scored, conversation, &report.reason, &encode(host, &report));
    if let Trip::Stopped { releases } = trip {
        if let Some(session) = &mut report.session {
            session.releases = releases;
        }
        send(host, scored, report, Evidence { excerpt: excerpt(), ..evidence });
    }
    trip
}

/// Counts and logs a loop, and puts its report into the outbox.
fn send(host: &impl Host, scored: &Scored, report: KillReport, mut evidence: Evidence) {
    let (_, metric, outcome) = consequence(scored.verdict, report.scope);
    host.count(metric, 1);
    let (agent_id, reason) = (&report.agent_id, &report.reason);
    // A number shows itself with code that the module has anyway. Formatting an `f64` would add 20 KB.
    let shown = serde_json::Number::from_f64(report.threshold).map(|number| number.to_string()).unwrap_or_default();
    let shown = shown.strip_suffix(".0").unwrap_or(&shown);
    let score = match report.repetition {
        Some(_) => String::new(),
        None => format!(" (score {}, threshold {shown})", scored.score),
    };
    log::warn!("agent {agent_id} {outcome}: {reason}{score}");
    let brief = encode(host, &report);
    evidence.matches.truncate(MAX_MATCHES);
    let Evidence { tools, matches, excerpt } = evidence;
    let report = encode(host, &KillReport { tools, matches, excerpt, ..report });
    outbox::put(host, report.as_bytes(), brief.as_bytes());
}
