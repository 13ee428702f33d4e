//! A loop that is spread over several Envoys: how soon it is stopped, and what the sidecar spends on each call and answer.

use std::time::{Duration, Instant};

use agent_kill_switch::detect::window::Call;
use agent_kill_switch::entries::{Item, Kind, VERSION, base64};
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::Answer;
use agent_kill_switch::wire::{AgentEntries, EntryReport};
use bench::stats::median;
use lab::fleet::{Fleet, Pace};
use lab::proc::{Sidecar, wait_until};
use serde_json::json;

use crate::cpu::cpu_microseconds;
use crate::options::Options;
use crate::rig;
use crate::row::{Goal, Row, Unit, Value};

const ENVOYS: usize = 4;
/// Workers of all Envoys together.
const SENDERS: usize = 8;
const AGENTS: usize = 100;
/// Calls in one report. With a report every 150 ms from each worker, these are 4,000 calls a second.
const CALLS: usize = 75;

/// Measures both.
pub async fn measure(options: &Options) -> Vec<Row> {
    let mut rows = vec![stopped(options).await];
    rows.extend(cost(options).await);
    rows
}

/// Measures how long after the call that would have tripped one window the loop is refused.
async fn stopped(options: &Options) -> Row {
    let fleet = Fleet::start(ENVOYS).await;
    let (mut times, mut calls) = (Vec::new(), Vec::new());
    for round in 0..options.rounds() {
        let agent = format!("loop-{round}");
        fleet.enable(&agent, json!({})).await;
        let (number, after) = fleet.loop_until_refused(&agent, Pace::NoPause).await;
        times.push(after.as_secs_f64());
        calls.push(number as f64);
    }
    let measured = format!("at call {:.0}, the model takes 250 ms for each answer", median(&calls));
    let slowest = times.iter().copied().fold(0.0, f64::max);
    Row::new(
        format!("a loop over {ENVOYS} Envoys is stopped"),
        measured,
        Value(slowest, Unit::Seconds),
        Goal::AtMost(0.5),
    )
}

/// Measures the CPU time of the sidecar.
async fn cost(options: &Options) -> Vec<Row> {
    let mut sidecar = rig::sidecar();
    sidecar.resume().await;
    let remote = rig::remote(&sidecar);
    for agent in 0..AGENTS {
        let (status, body) =
            remote.api("PUT", &format!("/v1/agents/a{agent}"), Some(json!({"kill_switch_enabled": true}))).await;
        assert_eq!(status, 201, "{body}");
    }
    let rounds = if options.quick { 50 } else { 300 };
    let merged = async || remote.sidecar_metric("kill_switch_fleet_entries_total").await;
    let process = sidecar.id().expect("the sidecar runs");
    // The first reports make the sidecar read the policies.
    send(&sidecar, 0).await;
    let (before, entries_before) = (cpu_microseconds(process), merged().await);
    let began = Instant::now();
    for round in 1..=rounds {
        send(&sidecar, round).await;
    }
    let sent = (rounds * SENDERS * CALLS * 2) as f64;
    wait_until("everything is merged", Duration::from_secs(60), || async { merged().await >= entries_before + sent })
        .await;
    let each = (cpu_microseconds(process) - before) / sent;
    let rate = sent / 2.0 / began.elapsed().as_secs_f64();
    let measured = format!("at {rate:.0} calls a second, {} entries in a report", CALLS * 2);
    vec![Row::new(
        "sidecar's CPU for each call or answer",
        measured,
        Value(each, Unit::Microseconds),
        Goal::AtMost(10.0),
    )]
}

/// Sends one report of each worker.
async fn send(sidecar: &Sidecar, round: usize) {
    let http = lab::http::client();
    for sender in 0..SENDERS {
        let report = serde_json::to_vec(&report(sender, round)).expect("a report can be written");
        let request = http.post(format!("{}/v1/entries", sidecar.url())).bearer_auth(rig::ENFORCER);
        let answer = request.header("content-type", "application/json").body(report).send().await;
        assert!(answer.is_ok_and(|answer| answer.status().is_success()), "the sidecar takes the report");
    }
}

/// Returns the calls that one worker saw, of agents that do not loop.
fn report(sender: usize, round: usize) -> EntryReport {
    let mut items = vec![Vec::new(); AGENTS];
    for call in 0..CALLS {
        let number = (round * CALLS + call + 1) as u32;
        let seed = ((sender * 1_000_003 + round) * CALLS + call + 1) as u64;
        let text = |salt: u64| {
            let simhash = SimHash((seed ^ salt << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            Fingerprint { simhash, digest: seed as u32, informative: true, failing: false }
        };
        let call = Call { at_ms: 1_000, input: text(1), ..Call::default() };
        let answer = Call { at_ms: 1_010, answer: Answer::Text(text(2)), ..Call::default() };
        let bytes = &mut items[(sender * CALLS + number as usize) % AGENTS];
        Item { kind: Kind::Common, number, half_points: 0, call }.encode(bytes);
        Item { kind: Kind::Answer, number, half_points: 0, call: answer }.encode(bytes);
    }
    let agents = items.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty());
    let agents = agents.map(|(agent, bytes)| AgentEntries {
        agent_id: format!("a{agent}"),
        generation: 1,
        entries: base64(bytes),
    });
    EntryReport {
        envoy: format!("edge-{}", sender % ENVOYS),
        sender: format!("{sender:016x}"),
        version: VERSION,
        sent_ms: 1_100,
        agents: agents.collect(),
    }
}
