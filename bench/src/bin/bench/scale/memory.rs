//! The memory of an agent: bytes of shared data, and Envoy's memory as Envoy reports it.

use agent_kill_switch::agent::record::Record;
use agent_kill_switch::config::Config;
use agent_kill_switch::shared::agent_key;
use agent_kill_switch::wire::Counting;
use bench::body::{Body, Shape};
use bench::pipeline::{Pipeline, WINDOW};
use lab::proc::{Envoy, Sidecar};
use serde_json::Value as Json;

use super::{AGENTS, AGENTS_TEXT, WORKERS, agents, cost, wait_for_policies};
use crate::options::Options;
use crate::rig::client::Connection;
use crate::rig::pool::Pool;
use crate::rig::upstream::Upstream;
use crate::rig::{self, Listener};
use crate::row::{Goal, Row, Unit, Value};

/// Counts the bytes of shared data of an agent whose common window is full, keys included.
pub fn shared_data() -> Vec<Row> {
    let agent = agents::name(AGENTS - 1);
    let (policy, key) = (Record::BYTES, agent_key(&agent).len());
    let window = Pipeline::new(Counting::Progress).window().len();
    let config = Config::parse(br#"{"cluster": "kill-switch"}"#, &|_| None).expect("a valid configuration");
    let measured = format!(
        "policy {policy}, window {window}, their key {key}; continued conversations share up to {} more windows",
        config.session_slots
    );
    let value = Value((policy + window + key) as f64, Unit::Bytes);
    vec![Row::new(format!("shared data of an agent, window of {WINDOW}"), measured, value, Goal::AtMost(2048.0))]
}

/// Starts an Envoy with every policy, and measures the memory of policies and of full windows.
pub async fn envoy(options: &Options, sidecar: &Sidecar, upstream: &Upstream) -> (Envoy, Vec<Row>) {
    // How many agents fill their windows.
    let full = if options.quick { 500 } else { 3_000 };
    let nobody = rig::sidecar();
    let empty = rig::envoy(&[Listener::Ours], upstream.address, nobody.address(), WORKERS).await;
    let before = allocated(&empty).await;
    drop(empty);
    let envoy = rig::envoy(&[Listener::Ours], upstream.address, sidecar.address(), WORKERS).await;
    wait_for_policies(&envoy, sidecar).await;
    let synced = allocated(&envoy).await;
    fill(&envoy, full).await;
    let filled = allocated(&envoy).await;
    let policy = (synced - before) / AGENTS as f64;
    let window = (filled - synced) / full as f64;
    let megabytes = (policy + window) * AGENTS as f64 / (1024.0 * 1024.0);
    let measured = format!(
        "policy {}, full window {}; {} MB for {AGENTS_TEXT} agents",
        Value(policy, Unit::Bytes),
        Value(window, Unit::Bytes),
        Value(megabytes, Unit::Count)
    );
    let what = format!("Envoy's memory for an agent ({full} windows filled)");
    (envoy, vec![Row::new(what, measured, Value(policy + window, Unit::Bytes), Goal::None)])
}

/// Fills the windows of this many agents.
async fn fill(envoy: &Envoy, full: usize) {
    let pool = Pool::new(Body { shape: Shape::Message, kilobytes: 1 });
    let mut connection = Connection::new(envoy.listener(Listener::Ours.name()));
    // The last agents, since the first ones must have empty windows in later measurements.
    for agent in AGENTS - full..AGENTS {
        let target = cost::target(envoy, &agents::name(agent));
        for _ in 0..WINDOW {
            assert_eq!(connection.call(&target, pool.next()).await.status, 200, "an answer to {target:?}");
        }
    }
}

/// Returns the bytes that Envoy has allocated.
async fn allocated(envoy: &Envoy) -> f64 {
    let memory: Json = serde_json::from_str(&envoy.get("/memory").await).expect("Envoy's memory is JSON");
    let bytes = memory["allocated"].as_str().and_then(|text| text.parse().ok());
    bytes.unwrap_or_else(|| panic!("Envoy does not report its allocated bytes: {memory}"))
}
