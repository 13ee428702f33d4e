//! Reports of calls as a filter sends them.

use std::sync::atomic::Ordering;

use agent_kill_switch::detect::window::Call;
use agent_kill_switch::entries::{Item, Kind, VERSION, base64};
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::{Answer, ToolTurn};
use serde_json::{Value, json};

use super::{START_MS, Sidecar, kill_with};

/// The scores of the loop of the specification.
pub const SCORES: [f64; 6] = [0.0, 1.0, 4.0, 7.0, 10.0, 13.0];

/// The text that every call or every answer has.
pub fn text(seed: u64) -> Fingerprint {
    Fingerprint { simhash: SimHash(seed), digest: seed as u32, informative: true, failing: false }
}

/// A call of the loop of the specification: one a second by the Envoy's clock, from the second 1 on.
pub fn call(number: u32, tools: ToolTurn) -> Item {
    let score = SCORES[(number as usize - 1).min(5)];
    let call = Call { at_ms: u64::from(number) * 1_000, in_flight: 1, input: text(1), tools, ..Call::default() };
    Item { kind: Kind::Common, number, half_points: (score * 2.0) as u16, call }
}

/// The answer to it, 300 ms later.
pub fn answer(number: u32, answer: Answer) -> Item {
    let call = Call { at_ms: u64::from(number) * 1_000 + 300, answer, ..Call::default() };
    Item { kind: Kind::Answer, number, half_points: 0, call }
}

/// The report of these items by a worker of an Envoy.
pub fn report(envoy: &str, agent_id: &str, sent_ms: u64, items: &[Item]) -> Value {
    let mut bytes = Vec::new();
    items.iter().for_each(|item| item.encode(&mut bytes));
    let agents = json!([{"agent_id": agent_id, "generation": 1, "entries": base64(&bytes)}]);
    json!({"envoy": envoy, "sender": format!("worker-of-{envoy}"), "version": VERSION, "sent_ms": sent_ms, "agents": agents})
}

impl Sidecar {
    /// Lets Envoy `edge-1` report items that have just happened by its clock, and writes them to the database.
    pub async fn reported(&self, agent_id: &str, items: &[Item]) {
        let sent_ms = items.iter().map(|item| item.call.at_ms).max().unwrap() + 50;
        let (now_ms, at_ms) = (self.clock.load(Ordering::SeqCst), START_MS + sent_ms);
        // The clock is never set back, because that would end the sessions of the dashboard.
        self.clock.store(if at_ms < now_ms { now_ms + 1_000 } else { at_ms }, Ordering::SeqCst);
        self.api.report("/v1/entries", report("edge-1", agent_id, sent_ms, items)).await.ok();
        self.service.write_observations().await.unwrap();
    }

    /// Lets an agent loop until Envoy `edge-1` stops it at the sixth call. Returns the id of the event.
    pub async fn looped(&self, agent_id: &str, more: Value) -> u64 {
        for number in 1..=6 {
            let mut items = vec![call(number, ToolTurn::None)];
            items.extend((number < 6).then(|| answer(number, Answer::Text(text(2)))));
            self.reported(agent_id, &items).await;
        }
        self.killed(agent_id, more).await
    }

    /// Lets Envoy `edge-1` report the kill of an agent. Returns the id of the event.
    pub async fn killed(&self, agent_id: &str, more: Value) -> u64 {
        let mut report = kill_with(&format!("kill-of-{agent_id}"), agent_id, 1, json!({"tools": []}));
        report["at_ms"] = json!(self.clock.load(Ordering::SeqCst));
        report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.api.report("/v1/kills", report).await.ok()["event_id"].as_u64().unwrap()
    }

    /// Returns the story of a kill.
    pub async fn story(&self, event_id: u64) -> Value {
        self.api.get(&format!("/v1/kills/{event_id}")).await.ok()
    }
}
