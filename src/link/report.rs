//! A detected loop, as it is told to the operator and to the sidecar.

use super::outbox;
use crate::agent::{Agent, Scored};
use crate::detect::verdict::Verdict;
use crate::host::Host;
use crate::metrics::Metric;
use crate::turn::Turn;
use crate::wire::{Action, KillReport};
use crate::worker::Worker;

/// How many matching calls a report lists.
const MAX_MATCHES: usize = 20;

/// What the report of a loop says in addition to the score.
#[derive(Clone, Debug)]
pub struct Details<'a> {
    /// The call that showed the loop.
    pub turn: &'a Turn,
    /// When it came, in milliseconds since 1970.
    pub at_ms: u64,
    /// The beginning of the repeated input, if the operator asked for it.
    pub excerpt: Option<String>,
}

/// Counts and logs a loop, and puts its report into the outbox.
pub fn report(host: &impl Host, worker: &Worker, agent: &Agent, scored: &Scored, details: Details<'_>) {
    let (action, metric, outcome) = match scored.verdict {
        Verdict::Kill => (Action::Deactivate, Metric::Kills, "deactivated"),
        Verdict::Block => (Action::Block, Metric::Blocks, "blocked"),
        Verdict::WouldKill | Verdict::Allow => (Action::Observe, Metric::WouldKills, "would have been stopped"),
    };
    host.count(metric, 1);
    let record = &agent.record;
    let explain = |window| record.scorer().explain(window, &details.turn.tool_names);
    let (reason, mut matches) = scored.window.as_ref().map(explain).unwrap_or_default();
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
        envoy: worker.envoy.clone(),
        at_ms: details.at_ms,
        score: score.value(),
        threshold,
        window_size: record.window_size,
        counting: record.counting,
        signals: score.signals,
        reason,
        tools: details.turn.tool_names.clone(),
        matches,
        excerpt: details.excerpt,
    };
    outbox::put(host, worker, report);
}
