//! The reports of workers, as the filter sends them.

use agent_kill_switch::detect::window::Call;
use agent_kill_switch::entries::{Item, Kind, VERSION, base64};
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::Answer;
use agent_kill_switch::wire::{AgentEntries, AgentObservation, EntryReport, Observations, ScoreSample, Signals};
use lab::proc::Sidecar;
use serde::Serialize;

use super::ENVOYS;
use crate::rig;

/// How many agents there are.
pub const AGENTS: usize = 100;

/// Returns the calls that one worker saw, with their answers, of agents that do not loop.
pub fn entries(sender: usize, round: usize, calls: usize) -> EntryReport {
    let mut items = vec![Vec::new(); AGENTS];
    for call in 0..calls {
        let number = (round * calls + call + 1) as u32;
        let seed = ((sender * 1_000_003 + round) * calls + call + 1) as u64;
        add_call(&mut items[(sender * calls + number as usize) % AGENTS], number, seed);
    }
    let agents = items.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty());
    report(sender, agents.map(|(agent, bytes)| (format!("a{agent}"), base64(bytes))))
}

/// Returns one call of each of these observed agents, with its answer.
pub fn single_calls(agents: std::ops::Range<usize>, round: usize) -> EntryReport {
    let entries = |agent: usize| {
        let mut bytes = Vec::new();
        let number = round * 1_000_000 + agent + 1;
        add_call(&mut bytes, number as u32, number as u64);
        (observed(agent), base64(&bytes))
    };
    report(0, agents.map(entries))
}

/// Adds a call and its answer.
fn add_call(bytes: &mut Vec<u8>, number: u32, seed: u64) {
    let text = |salt: u64| {
        let simhash = SimHash((seed ^ salt << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Fingerprint { simhash, digest: seed as u32, informative: true, failing: false }
    };
    let call = Call { at_ms: 1_000, input: text(1), ..Call::default() };
    let answer = Call { at_ms: 1_010, answer: Answer::Text(text(2)), ..Call::default() };
    Item { kind: Kind::Common, number, half_points: 0, call }.encode(bytes);
    Item { kind: Kind::Answer, number, half_points: 0, call: answer }.encode(bytes);
}

fn report(sender: usize, agents: impl Iterator<Item = (String, String)>) -> EntryReport {
    let agents = agents.map(|(agent_id, entries)| AgentEntries { agent_id, generation: 1, entries });
    EntryReport {
        envoy: format!("edge-{}", sender % ENVOYS),
        sender: format!("{sender:016x}"),
        version: VERSION,
        sent_ms: 1_100,
        agents: agents.collect(),
    }
}

/// Returns the id of an agent that is observed.
pub fn observed(number: usize) -> String {
    format!("seen-{number:05}")
}

/// Returns an observation of these agents, with one score each.
pub fn observations(agents: std::ops::Range<usize>, at_ms: u64) -> Observations {
    let score = ScoreSample { at_ms, sequence: 1, score: 1.5, signals: Signals::default() };
    let observe = |number| AgentObservation {
        agent_id: observed(number),
        requests: 1,
        last_seen_ms: at_ms,
        scores: vec![score.clone()],
        ..AgentObservation::default()
    };
    Observations { envoy: "edge-0".to_owned(), agents: agents.map(observe).collect() }
}

/// A worker's connection to a sidecar.
pub struct Link {
    http: lab::http::Client,
    sidecar: String,
}

impl Link {
    /// Creates a connection that is opened by the first report.
    pub fn new(sidecar: &Sidecar) -> Self {
        Self { http: lab::http::client(), sidecar: sidecar.url() }
    }

    /// Sends a report, which must be accepted.
    pub async fn send(&self, path: &str, report: &impl Serialize) {
        let body = serde_json::to_vec(report).expect("a report can be written");
        let request = self.http.post(format!("{}{path}", self.sidecar)).bearer_auth(rig::ENFORCER);
        let answer = request.header("content-type", "application/json").body(body).send().await;
        assert!(answer.is_ok_and(|answer| answer.status().is_success()), "the sidecar takes the report");
    }

    /// Polls without waiting, and returns the status and the body.
    pub async fn poll(&self, position: &str) -> (u16, String) {
        let url = format!("{}/v1/sync?{position}&wait=0&envoy=edge-0", self.sidecar);
        let answer = self.http.get(url).bearer_auth(rig::ENFORCER).send().await.expect("the sidecar answers");
        (answer.status().as_u16(), answer.text().await.unwrap_or_default())
    }
}
