//! kill -9 at any moment between the arrival of a report and its answer: afterwards the report is stored as a whole or
//! not at all, and sending it again results in exactly one event.
//!
//! The delay before the kill approaches the moment of the commit: it grows after a round that stored nothing and shrinks
//! after one that stored the report, at first in large steps. So most rounds end close to the commit, on any machine.

use std::path::Path;
use std::time::Duration;

use kill_switch::model::EventType;
use kill_switch::store::{DeliveryQuery, EventQuery, EventRange, Store};

use serde_json::json;

use crate::store::events;
use crate::support::kill;
use crate::support::process::Process;

const ROUNDS: u64 = 100;

#[derive(Debug, PartialEq)]
struct Traces {
    is_killed: bool,
    events: usize,
    alerts: usize,
}

/// Reads what the database contains about an agent while no sidecar is running.
async fn traces(db: &Path, agent_id: &str) -> Traces {
    let store = Store::sqlite(db).await.unwrap();
    let (agent, kind) = (Some(agent_id.to_owned()), Some(EventType::KillSwitch));
    let query = EventQuery { agent_id: agent, event_type: kind, ..events(EventRange::Before(None)) };
    let events = store.events(&query).await.unwrap();
    // An alert is either in the outbox or a delivery, depending on whether the courier has processed it.
    let mut waiting = store.pending_alerts().await.unwrap();
    let notices = DeliveryQuery { agent_id: Some(agent_id.to_owned()), limit: 10, ..DeliveryQuery::default() };
    let notices = store.deliveries(&notices).await.unwrap();
    waiting.extend(notices.iter().filter_map(|delivery| delivery.event_id));
    let agent = store.agent(agent_id).await.unwrap();
    store.close().await;
    Traces {
        is_killed: agent.is_some_and(|agent| !agent.policy.active),
        events: events.len(),
        alerts: waiting.iter().filter(|id| events.iter().any(|event| event.id == **id)).count(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_is_stored_whole_or_not_at_all_when_the_sidecar_is_killed() {
    let nothing = Traces { is_killed: false, events: 0, alerts: 0 };
    let everything = Traces { is_killed: true, events: 1, alerts: 1 };
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("kill-switch.db");
    let private = ["--allow-private-webhooks"];
    let mut process = Process::start(dir.path(), &private);
    // Nobody listens on this port, so every notice stays pending and can be counted.
    let nowhere = json!({"channel": "webhook", "target": "http://127.0.0.1:9/"});
    process.api.post("/v1/alerts", nowhere).await.ok();
    let mut delay = Duration::from_micros(1_500);
    let (mut lost, mut kept, mut answered) = (0, 0, 0);
    for round in 0..ROUNDS {
        let agent_id = format!("agent-{round}");
        let report = kill(&format!("kill-{round}"), &agent_id, 1);
        let (api, body) = (process.api.clone(), report.clone());
        // The connection is opened before, so that the delay covers only the report.
        api.get("/healthz").await;
        let request = api.request(reqwest::Method::POST, "/v1/kills", &api.enforcer).json(&body);
        let sending = tokio::spawn(async move { request.send().await.is_ok_and(|answer| answer.status() == 200) });
        tokio::time::sleep(delay).await;
        process.kill_9();
        let is_answered = sending.await.unwrap();

        let found = traces(&db, &agent_id).await;
        if is_answered {
            assert_eq!(found, everything, "round {round}: an acknowledged report is stored");
            answered += 1;
        }
        let step = if lost > 0 && kept > 0 { delay / 8 } else { delay / 2 };
        if found == nothing {
            lost += 1;
            delay += step;
        } else {
            assert_eq!(found, everything, "round {round}: the report is stored whole");
            kept += 1;
            delay -= step;
        }

        process = Process::start(dir.path(), &private);
        for _ in 0..2 {
            process.api.report("/v1/kills", report.clone()).await.ok();
        }
        assert_eq!(process.api.events(&format!("agent_id={agent_id}")).await.len(), 1, "round {round}");
    }
    println!("{lost} lost and sent again, {kept} kept, of which {answered} had been answered");
    assert!(lost > 0 && kept > 0, "the rounds fell on both sides of the commit: {lost} lost, {kept} kept");
    assert_eq!(process.api.events("event_type=kill_switch&limit=1000").await.len() as u64, ROUNDS);
    assert_eq!(process.api.outbox_depth().await, ROUNDS);
}
