//! The time of a request if its agent has one conversation and if it has ten thousand.

use bench::body::{Body, Shape};
use bench::stats::{median, ratio};
use lab::proc::Envoy;

use super::turns::{self, Callers};
use super::{agents, cost};
use crate::options::Options;
use crate::rig::client::Target;
use crate::rig::pool::Pool;
use crate::row::{Goal, Row, Unit, Value};

/// The conversations of the agent that has many.
const CONVERSATIONS: usize = 10_000;
/// The numbers of the agents with one and with many conversations. No other measurement uses these agents.
const AGENT_WITH_ONE: usize = 60_000;
const AGENT_WITH_MANY: usize = 60_001;

/// Measures calls of both agents in turns. Envoy's counters must confirm that all of them were judged.
pub async fn measure(options: &Options, envoy: &Envoy) -> Vec<Row> {
    const JUDGED: &str = "wasmcustom.kill_switch.requests.allowed";
    let before = envoy.stat(JUDGED).await;
    let pool = Pool::new(Body { shape: Shape::History, kilobytes: 2 });
    let mut cases = [callers(envoy, AGENT_WITH_ONE, 1), callers(envoy, AGENT_WITH_MANY, CONVERSATIONS)];
    let [one, many] = turns::measure(options, &mut cases, &pool).await;
    let calls: u64 = cases.iter().map(Callers::calls).sum();
    assert_eq!(envoy.stat(JUDGED).await - before, calls, "calls that were judged and forwarded");
    let what = format!("requests of {} conversations of one agent in turn", Value(CONVERSATIONS as f64, Unit::Count));
    let [now, alone] = [&many, &one].map(|times| Value(median(times), Unit::Microseconds));
    let measured = format!("p50 {now}; with one conversation {alone}");
    vec![Row::new(what, measured, Value(ratio(&many, &one), Unit::Times), Goal::AtMost(1.1))]
}

/// Returns the conversations of an agent as callers.
fn callers(envoy: &Envoy, agent: usize, conversations: usize) -> Callers {
    let agent = cost::target(envoy, &agents::name(agent));
    let call = |number| Target { session: Some(format!("conversation-{number:05}")), ..agent.clone() };
    Callers::new((0..conversations).map(call))
}
