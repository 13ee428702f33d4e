//! A hundred thousand agents and ten thousand conversations: the cost of a request, the memory of an agent, and how fast
//! policies arrive.

pub mod agents;
mod conversations;
mod cost;
mod memory;
mod propagation;
mod turns;

use std::time::Instant;

use bench::stats::median;
use lab::proc::{Envoy, Sidecar};

use crate::options::Options;
use crate::rig::upstream::Upstream;
use crate::rig::{self, Listener};
use crate::row::{Goal, Row, Unit, Value};

/// The number of agents of the larger sidecar; the other has one.
const AGENTS: usize = 100_000;
/// The same as text.
const AGENTS_TEXT: &str = "100,000";
/// Envoy's workers.
const WORKERS: u32 = 2;

/// Measures all of it with two sidecars, and an Envoy for each.
pub async fn measure(options: &Options) -> Vec<Row> {
    let upstream = Upstream::start();
    let few = agents::sidecar(1).await;
    let many = agents::sidecar(AGENTS).await;
    let mut rows = synced(options, &many, &upstream).await;
    rows.extend(memory::shared_data());
    let small = rig::envoy(&[Listener::Ours], upstream.address, few.address(), WORKERS).await;
    let (large, grown) = memory::envoy(options, &many, &upstream).await;
    rows.extend(grown);
    rows.extend(cost::measure(options, &small, &large).await);
    drop(small);
    rows.extend(conversations::measure(options, &large).await);
    rows.extend(propagation::measure(options, &many, &large).await);
    rows
}

/// Measures how long after its start an Envoy has every policy.
async fn synced(options: &Options, sidecar: &Sidecar, upstream: &Upstream) -> Vec<Row> {
    let mut times = Vec::new();
    for _ in 0..if options.quick { 1 } else { options.rounds() } {
        let started = Instant::now();
        let envoy = rig::envoy(&[Listener::Ours], upstream.address, sidecar.address(), WORKERS).await;
        wait_for_policies(&envoy, sidecar).await;
        times.push(started.elapsed().as_secs_f64());
    }
    let measured = "from the start of Envoy, loading the module included".to_owned();
    let value = Value(median(&times), Unit::Seconds);
    vec![Row::new(format!("{AGENTS_TEXT} policies synced"), measured, value, Goal::Below(10.0))]
}

/// Waits until this Envoy has reported to the sidecar that it has every policy.
async fn wait_for_policies(envoy: &Envoy, sidecar: &Sidecar) {
    let probe = agents::name(AGENTS - 1);
    cost::wait_until_judged(envoy, &probe).await;
    rig::remote(sidecar).settled().await;
}
