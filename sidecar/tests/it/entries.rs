//! What Envoys report about calls: it is merged, and a loop in it is a kill like any other.

use std::sync::Arc;

use agent_kill_switch::detect::window::Call;
use agent_kill_switch::entries::{Item, Kind, VERSION, base64};
use agent_kill_switch::fingerprint::Fingerprint;
use agent_kill_switch::fingerprint::simhash::SimHash;
use agent_kill_switch::turn::Answer;
use kill_switch::service::Limits;
use kill_switch::store::Store;
use serde_json::{Value, json};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use crate::dashboard::Visitor;
use crate::store::open_postgres;
use crate::support::fleet::{on_both_databases, sidecar_over};
use crate::support::postgres::{count, database};
use crate::support::{Sidecar, VIEWER, assert_members, eventually, kill_with};

/// The calls after which one Envoy that sees everything stops the loop.
const ALONE: u32 = 6;
const SESSION: u64 = 0xABC;

on_both_databases!(
    a_loop_in_what_two_envoys_report_deactivates_the_agent_once,
    a_loop_in_a_pause_is_recorded_and_stops_nothing,
    a_loop_in_a_conversation_stops_it_again_after_it_was_let_go_on,
    a_block_is_told_to_every_envoy_and_ends_with_an_activation,
    a_loop_that_an_envoy_has_reported_itself_is_not_reported_again,
    a_block_of_the_whole_agent_ends_the_evidence_of_all_its_conversations,
);

/// The text that every call and every answer has.
fn text(seed: u64) -> Fingerprint {
    Fingerprint { simhash: SimHash(seed), digest: 7, informative: true, failing: false }
}

/// Returns the report of an Envoy about one call of `bot` and its answer.
fn report(number: u32, generation: u64, kind: Kind) -> Value {
    let conversation = if kind == Kind::Conversation { SESSION } else { 0 };
    let call = Call { at_ms: 1_000, conversation, input: text(1), ..Call::default() };
    let answer = Call { at_ms: 1_010, answer: Answer::Text(text(2)), ..Call::default() };
    let mut bytes = Vec::new();
    Item { kind, number, half_points: 4, call }.encode(&mut bytes);
    Item { kind: Kind::Answer, number, half_points: 0, call: answer }.encode(&mut bytes);
    let envoy = number % 2;
    let agents = json!([{"agent_id": "bot", "generation": generation, "entries": base64(&bytes)}]);
    json!({
        "envoy": format!("edge-{envoy}"), "sender": format!("worker-{envoy}"), "version": VERSION, "sent_ms": 1_100,
        "agents": agents,
    })
}

/// Lets two Envoys report this many identical calls in turn, a second apart.
async fn calls(sidecar: &Sidecar, numbers: std::ops::Range<u32>, generation: u64, kind: Kind) {
    for number in numbers {
        let receipt = sidecar.api.report("/v1/entries", report(number, generation, kind)).await.ok();
        assert_eq!(receipt, json!({"accepted": 2, "ignored": 0}));
        merge(sidecar).await;
        sidecar.pass(1);
    }
}

/// Passes on what was reported, and merges everything.
async fn merge(sidecar: &Sidecar) {
    sidecar.service.publish_entries().await.unwrap();
    sidecar.service.merge_entries().await.unwrap();
}

async fn guarded(store: Arc<Store>, settings: Value) -> Sidecar {
    let sidecar = sidecar_over(store, Limits::default()).await;
    sidecar.api.guarded("bot").await;
    sidecar.api.patch("/v1/agents/bot", settings).await.ok();
    // PostgreSQL: the first read connects, and finds nothing.
    sidecar.service.merge_entries().await.unwrap();
    sidecar
}

async fn a_loop_in_what_two_envoys_report_deactivates_the_agent_once(store: Arc<Store>) {
    let sidecar = guarded(store, json!({})).await;
    calls(&sidecar, 0..ALONE - 1, 1, Kind::Common).await;
    assert_eq!(sidecar.api.agent("bot").await["active"], true);
    let seen = sidecar.api.get("/v1/agents/bot/fleet").await.ok();
    assert_eq!((&seen["score"], seen["envoys"].as_array().unwrap().len()), (&json!(10.0), 2));
    assert_members(&seen["envoys"][1], json!({"envoy": "edge-1", "score": 2.0}));
    calls(&sidecar, ALONE - 1..20, 1, Kind::Common).await;
    assert_members(&sidecar.api.agent("bot").await, json!({"active": false, "deactivated_by": "kill_switch"}));
    let kills = sidecar.api.events("agent_id=bot&event_type=kill_switch").await;
    assert_eq!(kills.len(), 1);
    let envoys = json!([{"envoy": "edge-0", "calls": 3}, {"envoy": "edge-1", "calls": 3}]);
    assert_members(&kills[0], json!({"score": 13.0, "envoy": "edge-0, edge-1", "envoys": envoys, "scope": "agent"}));
    assert_eq!(sidecar.api.outbox_depth().await, 1, "there is an alert");

    // What Envoys reported before they heard of the activation is ignored.
    sidecar.api.post("/v1/agents/bot/activate", json!({})).await.ok();
    calls(&sidecar, 20..40, 1, Kind::Common).await;
    assert_eq!(sidecar.api.agent("bot").await["active"], true);
    calls(&sidecar, 40..40 + ALONE, 2, Kind::Common).await;
    assert_eq!(sidecar.api.agent("bot").await["active"], false);
}

async fn a_loop_in_a_pause_is_recorded_and_stops_nothing(store: Arc<Store>) {
    let sidecar = guarded(store, json!({})).await;
    sidecar.api.put("/v1/pause", json!({"for_seconds": 600})).await.ok();
    calls(&sidecar, 0..2 * ALONE, 1, Kind::Common).await;
    assert_members(&sidecar.api.agent("bot").await, json!({"active": true, "generation": 1}));
    let would = sidecar.api.events("agent_id=bot&event_type=would_kill").await;
    assert_eq!(would.len(), 2, "one for each loop: {would:?}");
    assert_members(&would[0], json!({"paused": true, "action": "observe"}));
}

async fn a_loop_in_a_conversation_stops_it_again_after_it_was_let_go_on(store: Arc<Store>) {
    let sidecar = guarded(store, json!({"scope": "session"})).await;
    calls(&sidecar, 0..ALONE, 1, Kind::Conversation).await;
    let sessions = async || sidecar.api.get("/v1/agents/bot/sessions").await.ok()["sessions"].clone();
    let stopped = sessions().await;
    assert_eq!(stopped.as_array().unwrap().len(), 1, "{stopped}");
    let key = stopped[0]["session_key"].as_str().unwrap().to_owned();
    assert_eq!(key, format!("{SESSION:016x}"));
    assert_eq!(sidecar.api.agent("bot").await["active"], true);
    sidecar.api.post(&format!("/v1/agents/bot/sessions/{key}/resume"), json!({})).await.ok();
    assert_eq!(sessions().await, json!([]));
    calls(&sidecar, 10..10 + ALONE, 1, Kind::Conversation).await;
    assert_eq!(sessions().await[0]["releases"], 1);
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 2);
}

async fn a_block_is_told_to_every_envoy_and_ends_with_an_activation(store: Arc<Store>) {
    let sidecar = guarded(store, json!({"action": "block", "retry_after_seconds": 90})).await;
    calls(&sidecar, 0..ALONE, 1, Kind::Common).await;
    let told = || async { sidecar.api.sync("envoy=edge-0").await.synced().agents.remove(0).stopped_sessions };
    let block = told().await;
    assert_eq!((block.len(), block[0].key.as_str(), block[0].action.as_str()), (1, "0000000000000000", "block"));
    let blocked = sidecar.api.events("event_type=blocked").await;
    assert_eq!(blocked.len(), 1);
    assert_members(&blocked[0], json!({"block_reason": "loop_detected", "retry_after_seconds": 90, "scope": "agent"}));
    assert_eq!(blocked[0].get("session"), None, "it is about no conversation");
    assert_eq!(sidecar.api.get("/v1/agents/bot/sessions").await.ok()["sessions"], json!([]));
    sidecar.api.post("/v1/agents/bot/activate", json!({})).await.ok();
    assert_eq!(told().await, []);
}

async fn a_loop_that_an_envoy_has_reported_itself_is_not_reported_again(store: Arc<Store>) {
    let sidecar = guarded(store, json!({"action": "observe"})).await;
    calls(&sidecar, 0..ALONE - 1, 1, Kind::Common).await;
    sidecar.api.report("/v1/kills", kill_with("own", "bot", 1, json!({"action": "observe"}))).await.ok();
    merge(&sidecar).await;
    calls(&sidecar, 10..10 + ALONE - 1, 1, Kind::Common).await;
    assert_eq!(sidecar.api.events("event_type=would_kill").await.len(), 1);
}

async fn a_block_of_the_whole_agent_ends_the_evidence_of_all_its_conversations(store: Arc<Store>) {
    let sidecar = guarded(store, json!({"action": "block"})).await;
    calls(&sidecar, 0..ALONE - 1, 1, Kind::Common).await;
    let session = json!({"key": format!("{SESSION:016x}"), "id": null, "releases": 0});
    let block = kill_with("own", "bot", 1, json!({"action": "block", "scope": "agent", "session": session}));
    assert_eq!(sidecar.api.report("/v1/kills", block).await.ok()["outcome"], "blocked");
    merge(&sidecar).await;
    calls(&sidecar, 10..10 + ALONE - 1, 1, Kind::Common).await;
    assert_eq!(sidecar.api.events("event_type=blocked").await.len(), 1);
}

#[tokio::test]
async fn a_replica_that_is_alone_keeps_calls_out_of_the_exchange_table_until_another_one_starts() {
    let Some(url) = database().await else { return };
    let first = guarded(open_postgres(&url).await, json!({"action": "observe"})).await;
    let passes_on = async || {
        let before = count(&url, "SELECT COALESCE(MAX(id), 0) FROM fleet_messages").await;
        calls(&first, 0..1, 1, Kind::Common).await;
        let rows = format!("SELECT count(*) FROM fleet_messages WHERE id > {before} AND messages <> '[]'");
        count(&url, &rows).await > 0
    };
    eventually("the replica finds out that it is alone", || async { !passes_on().await }).await;
    let seen_by =
        async |replica: &Sidecar| replica.api.get("/v1/agents/bot/fleet").await.ok()["envoys"][0]["envoy"].clone();
    assert_eq!(seen_by(&first).await, "edge-0", "its calls are merged all the same");

    let second = sidecar_over(open_postgres(&url).await, Limits::default()).await;
    eventually("the first replica hears of the second, which hears of a call", || async {
        second.service.merge_entries().await.unwrap();
        passes_on().await && {
            second.service.merge_entries().await.unwrap();
            seen_by(&second).await == "edge-0"
        }
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_read_is_ignored_and_pages_show_the_envoys_of_an_agent() {
    let sidecar = Sidecar::guarding("bot").await;
    let mut newer = report(1, 1, Kind::Common);
    newer["version"] = json!(VERSION + 1);
    assert_eq!(sidecar.api.report("/v1/entries", newer).await.ok(), json!({"accepted": 0, "ignored": 2}));
    for entries in ["!", "AAAA", ""] {
        let mut odd = report(1, 1, Kind::Common);
        odd["agents"][0]["entries"] = json!(entries);
        sidecar.api.report("/v1/entries", odd).await.ok();
    }
    sidecar.api.report("/v1/entries", json!({"agents": []})).await.problem(422);
    let empty = sidecar.api.get("/v1/agents/bot/fleet").await.ok();
    assert_eq!(empty, json!({"score": null, "envoys": []}));
    calls(&sidecar, 0..3, 1, Kind::Common).await;
    let mut visitor = Visitor::signed_in(&sidecar, VIEWER).await;
    let page = visitor.get("/agents/bot").await.text().await.unwrap();
    for shown in ["2 Envoys serve this agent", "together have the score <strong>4</strong>", "edge-0", "edge-1"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let page = visitor.get("/agents").await.text().await.unwrap();
    assert!(page.contains(r#"<td class="numbers" data-label="Envoys">2</td>"#), "{page}");
    sidecar.api.get("/v1/agents/nobody/fleet").await.problem(404);
    let metrics = sidecar.api.get("/metrics").await.text;
    assert!(metrics.contains("kill_switch_fleet_windows 1"), "{metrics}");
}

#[tokio::test]
async fn an_agent_whose_row_cannot_be_read_does_not_hide_the_loops_of_others() {
    let sidecar = Sidecar::guarding("broken").await;
    sidecar.api.guarded("bot").await;
    merge(&sidecar).await;
    let options = SqliteConnectOptions::new().filename(sidecar.dir.path().join("test.db"));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("UPDATE agents SET generation = -1 WHERE agent_id = 'broken'").execute(&pool).await.unwrap();
    for number in 0..ALONE {
        let mut report = report(number, 1, Kind::Common);
        let mut broken = report["agents"][0].clone();
        broken["agent_id"] = json!("broken");
        report["agents"].as_array_mut().unwrap().insert(0, broken);
        sidecar.api.report("/v1/entries", report).await.ok();
        merge(&sidecar).await;
        sidecar.pass(1);
    }
    assert_eq!(sidecar.api.agent("bot").await["deactivated_by"], "kill_switch");
}
