//! Envoy's CPU time per request: user and system time of the process, divided by the requests.
//!
//! Two workers serve a steady load on a few connections. Three kinds of requests take turns: calls of an agent whose switch
//! is on and which are judged, calls of an agent whose switch is off, and requests without an agent id, which the filter
//! forwards after reading their headers, without looking anything up. Values are the differences from the last kind.

use std::collections::BTreeMap;
use std::time::Duration;

use bench::body::{Body, Shape};
use bench::stats::median;
use serde_json::json;

use crate::options::Options;
use crate::rig::pool::{Pool, load};
use crate::rig::{Listener, Rig};
use crate::row::{Goal, Row, Unit, Value};

const WORKERS: u32 = 2;
const CONNECTIONS: usize = 8;
/// `_SC_CLK_TCK`, the unit of `/proc/PID/stat`, which is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The agent of each kind of request, and the filter's counter of such requests.
const KINDS: [(&str, &str); 3] = [("on", "allowed"), ("off", "off"), ("", "no_agent")];

/// Measures requests of 1 and 10 KB.
pub async fn measure(options: &Options) -> Vec<Row> {
    let rig = Rig::start(&[Listener::Ours], WORKERS).await;
    rig.remote.enable("on", json!({})).await;
    rig.remote.enable("off", json!({"kill_switch_enabled": false})).await;
    let slice = Duration::from_millis(if options.quick { 500 } else { 2_000 });
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    let mut rows = Vec::new();
    for kilobytes in [1, 10] {
        let body = Body { shape: Shape::Message, kilobytes };
        let pool = Pool::new(body);
        let mut costs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for round in 0..options.rounds() {
            for turn in 0..KINDS.len() {
                let (agent, counter) = KINDS[(round + turn) % KINDS.len()];
                let before = cpu_microseconds(rig.envoy.id());
                let load = load(&rig.target(Listener::Ours, agent, "whole"), &pool, CONNECTIONS, slice, 200).await;
                let used = cpu_microseconds(rig.envoy.id()) - before;
                costs.entry(agent).or_default().push(used / load.calls() as f64);
                *calls.entry(counter).or_default() += load.calls();
            }
        }
        rows.push(row(format!("judged: {body}"), &costs["on"], &costs[""], 30.0));
        rows.push(row(format!("switch off: {body}"), &costs["off"], &costs[""], 5.0));
    }
    let stats = rig.envoy.stats().await;
    for (counter, calls) in calls {
        let counted = stats.get(&format!("wasmcustom.kill_switch.requests.{counter}")).copied();
        assert_eq!(counted, Some(calls), "requests that the filter counted as {counter}");
    }
    rows
}

fn row(what: String, costs: &[f64], passed: &[f64], limit: f64) -> Row {
    let more: Vec<f64> = costs.iter().zip(passed).map(|(cost, passed)| cost - passed).collect();
    let [cost, passed, more] = [costs, passed, &more].map(|values| Value(median(values), Unit::Microseconds));
    Row::new(what, format!("{cost}; without an agent id {passed}"), more, Goal::AtMost(limit))
}

/// Returns the user and system time that a process has used.
pub fn cpu_microseconds(process: u32) -> f64 {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    microseconds(&stat)
}

/// Returns the user and system time that a process and those of its children that still run have used.
pub fn cpu_of_children(process: u32) -> f64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // After the name in parentheses come the state and the parent.
    let is_child = |stat: &String| field(stat, 1) == f64::from(process);
    cpu_microseconds(process) + stats.filter(is_child).map(|stat| microseconds(&stat)).sum::<f64>()
}

fn microseconds(stat: &str) -> f64 {
    (field(stat, 11) + field(stat, 12)) / TICKS_PER_SECOND * 1e6
}

/// Returns a field of `/proc/PID/stat`, counted from the one after the name in parentheses, which may hold spaces.
fn field(stat: &str, number: usize) -> f64 {
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.nth(number).and_then(|field| field.parse().ok()).unwrap_or(0.0)
}
