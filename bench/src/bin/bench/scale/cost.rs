//! The time of a request if one agent is known and if a hundred thousand are.

use std::time::{Duration, Instant};

use bench::body::{Body, Shape};
use bench::stats::{median, ratio};
use lab::proc::Envoy;

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
    let slices = if options.quick { 4 } else { 8 };
    let cases = [(small, 1), (large, 1), (large, CALLING)];
    let mut all = [const { Vec::new() }; 3];
    for round in 0..options.rounds() {
        let mut times = [const { Vec::new() }; 3];
        for turn in 0..slices * cases.len() {
            let case = (round + turn) % cases.len();
            let (envoy, calling) = cases[case];
            times[case].extend(calls(envoy, calling, &pool).await);
        }
        for (all, times) in all.iter_mut().zip(times) {
            all.push(median(&times));
        }
    }
    let [alone, one, spread] = &all;
    let row = |what: &str, times: &[f64]| {
        let [now, before] = [times, alone].map(|times| Value(median(times), Unit::Microseconds));
        let measured = format!("p50 {now}; with one agent {before}");
        Row::new(what, measured, Value(ratio(times, alone), Unit::Times), Goal::AtMost(1.1))
    };
    vec![
        row(&format!("a request of one agent, {AGENTS_TEXT} known"), one),
        row(&format!("requests of {} agents in turn, {AGENTS_TEXT} known", Value(CALLING as f64, Unit::Count)), spread),
    ]
}

/// Makes calls of this many agents in turn on one connection, and returns their times in microseconds.
async fn calls(envoy: &Envoy, calling: usize, pool: &Pool) -> Vec<f64> {
    const SLICE: Duration = Duration::from_millis(150);
    let targets: Vec<Target> = (0..calling).map(|number| target(envoy, &agents::name(number))).collect();
    let mut connection = Connection::new(envoy.listener(Listener::Ours.name()));
    let mut times = Vec::new();
    connection.call(&targets[0], pool.next()).await;
    let started = Instant::now();
    for target in targets.iter().cycle() {
        if started.elapsed() > SLICE {
            break;
        }
        let reply = connection.call(target, pool.next()).await;
        assert_eq!(reply.status, 200, "an answer to {target:?}");
        times.push(reply.all.as_secs_f64() * 1e6);
    }
    times
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
