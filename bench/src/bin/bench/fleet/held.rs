//! A steady load over several Envoys, with the comparison of their calls (`fleet: true`) and without it, in turns.
//!
//! Each Envoy has two listeners, which differ only in this field, so process, caches, windows and upstream connections are
//! the same. Calls are made at a fixed rate, whatever the answers take, on more connections than are needed for that.
//!
//! In a mesh the sidecar takes no cores from the Envoys. Here it shares them, so it gets the lowest priority: what is
//! measured is what telling it costs the Envoys.

use std::process::{Command, Stdio};
use std::time::Duration;

use bench::body::{Body, Shape};
use bench::stats::{median, ratio};
use lab::mesh::Remote;
use lab::proc::{Envoy, Sidecar};
use serde_json::json;

use super::ENVOYS;
use crate::cpu::cpu_microseconds;
use crate::options::Options;
use crate::rig::client::Target;
use crate::rig::pool::{Load, Pool, paced};
use crate::rig::upstream::Upstream;
use crate::rig::{self, Listener};
use crate::row::{Goal, Row, Unit, Value};

/// A prime number, so that the calls of each agent go to all Envoys in turn.
const AGENTS: usize = 101;
/// Connections to all Envoys together.
const CONNECTIONS: usize = 64;
/// Calls a second.
const RATES: [usize; 3] = [1_000, 2_000, 4_000];
/// The share of the wanted rate that must be reached for it to count as held.
const HELD: f64 = 0.99;
const CASES: [Listener; 2] = [Listener::Ours, Listener::Alone];

/// What was used during some slices of load.
#[derive(Default)]
struct Used {
    load: Load,
    p99: Vec<f64>,
    envoys_us: f64,
    sidecar_us: f64,
    messages: u64,
    bytes: u64,
}

/// Measures each rate.
pub async fn measure(options: &Options) -> Vec<Row> {
    let upstream = Upstream::start();
    let mut sidecar = rig::sidecar();
    sidecar.resume().await;
    give_way(sidecar.id().expect("the sidecar runs"));
    let mut envoys = Vec::new();
    for number in 0..ENVOYS {
        let name = format!("edge-{number}");
        envoys.push(rig::named_envoy(&name, &CASES, upstream.address, sidecar.address(), 1).await);
    }
    let fleet = Measured { envoys, remote: rig::remote(&sidecar), sidecar };
    for agent in 0..AGENTS {
        fleet.remote.switch_on(&name(agent), &json!({})).await;
    }
    fleet.remote.settled().await;
    let rates = if options.quick { &RATES[..1] } else { &RATES[..] };
    let (mut rows, mut calls) = (Vec::new(), 0);
    for rate in rates {
        let (slices, time) = if options.quick { (2, Duration::from_secs(2)) } else { (6, Duration::from_secs(10)) };
        let [on, off] = fleet.take_turns(*rate, slices, time).await;
        calls += on.load.calls() + off.load.calls();
        rows.push(compared(*rate, &on, &off));
        if Some(rate) == rates.last() {
            rows.extend(costs(&on, &off));
            rows.push(fleet.connections().await);
        }
    }
    let judged = fleet.counted("wasmcustom.kill_switch.requests.allowed").await;
    assert_eq!(judged, calls, "calls that were judged and forwarded");
    let dropped = fleet.counted("wasmcustom.kill_switch.entries_dropped").await;
    let measured = format!("{} calls in all", Value(calls as f64, Unit::Count));
    rows.push(Row::new("entries that the sidecar was not told of", measured, count(dropped as f64), Goal::AtMost(0.0)));
    rows
}

struct Measured {
    envoys: Vec<Envoy>,
    remote: Remote,
    sidecar: Sidecar,
}

impl Measured {
    /// Makes calls at this rate, with and without the comparison in turns.
    async fn take_turns(&self, rate: usize, slices: usize, time: Duration) -> [Used; 2] {
        let pool = Pool::new(Body { shape: Shape::Message, kilobytes: 1 });
        let mut all = [Used::default(), Used::default()];
        for turn in 0..2 * slices {
            // The order changes with every pair, so that neither always comes first.
            let case = (turn + turn / 2) % 2;
            let targets: Vec<Vec<Target>> = self.envoys.iter().map(|envoy| targets(envoy, CASES[case])).collect();
            let before = self.used().await;
            let load = paced(&targets, &pool, CONNECTIONS, rate as f64, time).await;
            // What the workers have not told yet belongs to this slice.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let after = self.used().await;
            let used = &mut all[case];
            used.p99.push(load.percentile(99.0));
            used.load.add(load);
            used.envoys_us += after.0 - before.0;
            used.sidecar_us += after.1 - before.1;
            used.messages += after.2 - before.2;
            used.bytes += after.3 - before.3;
        }
        all
    }

    /// Returns the CPU time of the Envoys and of the sidecar, and the requests and bytes that the sidecar was sent.
    async fn used(&self) -> (f64, f64, u64, u64) {
        let envoys = self.envoys.iter().map(|envoy| cpu_microseconds(envoy.id())).sum();
        let sidecar = cpu_microseconds(self.sidecar.id().expect("the sidecar runs"));
        let messages = self.counted("cluster.kill-switch.upstream_rq_total").await;
        (envoys, sidecar, messages, self.counted("cluster.kill-switch.upstream_cx_tx_bytes_total").await)
    }

    /// Returns how many connections each Envoy, which has one worker, keeps to the sidecar.
    async fn connections(&self) -> Row {
        let open = self.counted("cluster.kill-switch.upstream_cx_active").await;
        let measured = format!("{open} of {ENVOYS} Envoys with one worker each");
        Row::new("connections of an Envoy", measured, count(open as f64 / ENVOYS as f64), Goal::None)
    }

    /// Returns the sum of a counter over all Envoys.
    async fn counted(&self, counter: &str) -> u64 {
        let mut sum = 0;
        for envoy in &self.envoys {
            sum += envoy.stat(counter).await;
        }
        sum
    }
}

/// Gives every thread of a process the lowest priority. Threads that it starts later inherit it.
fn give_way(process: u32) {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process has threads");
    let threads = tasks.map(|task| task.expect("the list can be read").file_name());
    // It fails if one of the threads has ended by now, and does the others all the same.
    let renice = Command::new("renice").args(["-n", "19", "-p"]).args(threads).stdout(Stdio::null()).status();
    renice.expect("renice is installed");
}

fn name(agent: usize) -> String {
    format!("agent-{agent}")
}

/// Returns a call of each agent.
fn targets(envoy: &Envoy, listener: Listener) -> Vec<Target> {
    (0..AGENTS).map(|agent| rig::target(envoy, listener, &name(agent), "whole")).collect()
}

/// Compares the slowest calls.
fn compared(rate: usize, on: &Used, off: &Used) -> Row {
    let milliseconds = |values: &[f64]| Value(median(values) / 1000.0, Unit::Milliseconds);
    let reached = |used: &Used| used.load.rate();
    let limit = [on, off].iter().map(|used| reached(used)).fold(f64::MAX, f64::min);
    let held = if limit >= HELD * rate as f64 { "" } else { "; NOT HELD, the machine's limit is reached" };
    let spread = off.p99.iter().copied().fold(0.0, f64::max) / off.p99.iter().copied().fold(f64::MAX, f64::min);
    let measured = format!(
        "p99 {}; without {}, of which the slowest slice is {spread:.2} times the fastest; {:.0} and {:.0} calls/s reached{held}",
        milliseconds(&on.p99),
        milliseconds(&off.p99),
        reached(on),
        reached(off)
    );
    let what = format!("p99 of {} calls a second over {ENVOYS} Envoys", count(rate as f64));
    Row::new(what, measured, Value(ratio(&on.p99, &off.p99), Unit::Times), Goal::AtMost(1.1))
}

/// Returns what telling the sidecar costs, at the highest rate.
fn costs(on: &Used, off: &Used) -> Vec<Row> {
    let per_call = |of: fn(&Used) -> f64| {
        let [on, off] = [on, off].map(|used| of(used) / used.load.calls() as f64);
        (on, off, on - off)
    };
    let (with, without, more) = per_call(|used| used.envoys_us);
    let envoys = format!("{}; without {}", microseconds(with), microseconds(without));
    let (with, without, bytes) = per_call(|used| used.bytes as f64);
    let sent = format!("{with:.0} B; without {without:.0} B, which are observations and polls");
    let (with, without, messages) = per_call(|used| used.messages as f64);
    let requests = format!("{with:.4}; without {without:.4}");
    let (with, without, sidecar) = per_call(|used| used.sidecar_us);
    let merged = format!("{}; without {}", microseconds(with), microseconds(without));
    vec![
        Row::new("Envoy's CPU for telling the sidecar of a call", envoys, microseconds(more), Goal::None),
        Row::new("sidecar's CPU for a call that it is told of", merged, microseconds(sidecar), Goal::AtMost(20.0)),
        Row::new("bytes to the sidecar for a call", sent, Value(bytes, Unit::Bytes), Goal::None),
        Row::new("reports to the sidecar for a call", requests, count(messages), Goal::None),
    ]
}

fn microseconds(value: f64) -> Value {
    Value(value, Unit::Microseconds)
}

fn count(value: f64) -> Value {
    Value(value, Unit::Count)
}
