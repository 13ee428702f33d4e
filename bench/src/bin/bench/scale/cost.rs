//! The time of a request if one agent is known and if a hundred thousand are.

use std::time::{Duration, Instant};

use bench::body::{Body, Shape};
use bench::stats::{median, ratio};
use lab::proc::Envoy;

use super::turns::{self, Callers};
use super::{AGENTS_TEXT, agents};
use crate::options::Options;
use crate::rig::client::{Connection, Target};
use crate::rig::pool::Pool;
use crate::rig::{self, Listener};
use crate::row::{Goal, Row, Unit, Value};

/// How many agents call in turn in the last case.
const CALLING: usize = 4_000;

/// Measures three cases in turns: calls of the only known agent, of one of many known agents, and of thousands of them.
pub async fn measure(options: &Options, small: &Envoy, large: &Envoy) -> Vec<Row> {
    wait_until_judged(small, &agents::name(0)).await;
    let pool = Pool::new(Body { shape: Shape::History, kilobytes: 10 });
    let callers = |envoy, calling| Callers::new((0..calling).map(|number| target(envoy, &agents::name(number))));
    let mut cases = [callers(small, 1), callers(large, 1), callers(large, CALLING)];
    let [alone, one, spread] = turns::measure(options, &mut cases, &pool).await;
    let row = |what: &str, times: &[f64]| {
        let [now, before] = [times, &alone].map(|times| Value(median(times), Unit::Microseconds));
        let measured = format!("p50 {now}; with one agent {before}");
        Row::new(what, measured, Value(ratio(times, &alone), Unit::Times), Goal::AtMost(1.1))
    };
    let calling = Value(CALLING as f64, Unit::Count);
    vec![
        row(&format!("a request of one agent, {AGENTS_TEXT} known"), &one),
        row(&format!("requests of {calling} agents in turn, {AGENTS_TEXT} known"), &spread),
    ]
}

/// Returns a call of an agent.
pub fn target(envoy: &Envoy, agent: &str) -> Target {
    rig::target(envoy, Listener::Ours, agent, "whole")
}

/// Calls until Envoy judges the agent's calls, that is, until it has the agent's policy.
pub async fn wait_until_judged(envoy: &Envoy, agent: &str) {
    const DEADLINE: Duration = Duration::from_secs(60);
    let pool = Pool::new(Body { shape: Shape::Message, kilobytes: 1 });
    let mut connection = Connection::new(envoy.listener(Listener::Ours.name()));
    let started = Instant::now();
    while envoy.stat("wasmcustom.kill_switch.requests.allowed").await == 0 {
        assert!(started.elapsed() < DEADLINE, "Envoy has no policy for {agent} after {DEADLINE:?}\n{}", envoy.log());
        connection.call(&target(envoy, agent), pool.next()).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
