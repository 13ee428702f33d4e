//! Specification, "Deactivation Reason Tracking" and "Clear window on activate".

use serde_json::json;

use crate::support::{START_MS, Sidecar, assert_members, kill};

#[tokio::test]
async fn a_kill_sets_active_to_false_and_deactivated_by_to_kill_switch() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    let killed = json!({"active": false, "deactivated_by": "kill_switch"});
    assert_members(&sidecar.api.agent("a").await, killed.clone());
    assert_members(&sidecar.api.sync("since=0").await.ok()["agents"][0], killed);
}

#[tokio::test]
async fn a_person_deactivating_sets_deactivated_by_to_manual() {
    let sidecar = Sidecar::guarding("a").await;
    let agent = sidecar.api.post("/v1/agents/a/deactivate", json!({"reason": "too expensive"})).await.ok();
    assert_members(&agent, json!({"active": false, "deactivated_by": "manual"}));
    assert_eq!(sidecar.api.agent("a").await, agent);
}

#[tokio::test]
async fn activating_clears_the_reason_and_raises_the_generation() {
    let sidecar = Sidecar::guarding("a").await;
    for generation in 1..=3_u64 {
        sidecar.api.report("/v1/kills", kill(&format!("k{generation}"), "a", generation)).await.ok();
        let agent = sidecar.api.post("/v1/agents/a/activate", json!({"reason": "fixed"})).await.ok();
        assert_members(&agent, json!({"active": true, "deactivated_by": null, "generation": generation + 1}));
        let told = sidecar.api.sync("since=0").await.ok();
        assert_eq!(told["agents"][0]["generation"], generation + 1, "windows from before are invalid");
    }
}

#[tokio::test]
async fn activating_an_active_agent_raises_its_generation_too() {
    let sidecar = Sidecar::guarding("a").await;
    for generation in 2..=3 {
        let agent = sidecar.api.post("/v1/agents/a/activate", json!({"reason": "to be sure"})).await.ok();
        assert_members(&agent, json!({"active": true, "deactivated_by": null, "generation": generation}));
        assert_eq!(sidecar.api.sync("since=0").await.ok()["agents"][0]["generation"], generation);
    }
    let events = sidecar.api.events("event_type=activated").await;
    assert_eq!(events.len(), 2);
    assert_members(&events[0], json!({"was_deactivated_by": null, "generation": 3, "reason": "to be sure"}));
    let late = sidecar.api.report("/v1/kills", kill("k", "a", 2)).await.ok();
    assert_eq!(late["outcome"], "stale", "a kill that an Envoy could not report until now is over");
    assert_eq!(sidecar.deliver().await, 0, "nobody is notified of a recovery, because there was no kill");
}

#[tokio::test]
async fn deactivating_an_inactive_agent_changes_nothing() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    let agent = sidecar.api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    assert_eq!(agent["deactivated_by"], "kill_switch", "the first reason stays");
    let types: Vec<_> = sidecar.api.events("agent_id=a").await.iter().map(|e| e["event_type"].clone()).collect();
    assert_eq!(types, ["kill_switch", "created"]);
}

#[tokio::test]
async fn a_kill_of_an_agent_that_a_person_deactivated_is_recorded_and_keeps_manual() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.post("/v1/agents/a/deactivate", json!({})).await.ok();
    let receipt = sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(receipt["outcome"], "applied");
    assert_eq!(sidecar.api.agent("a").await["deactivated_by"], "manual");
    assert_eq!(sidecar.api.events("event_type=kill_switch").await.len(), 1);
}

#[tokio::test]
async fn a_deleted_agent_that_is_created_again_has_a_new_generation() {
    let sidecar = Sidecar::guarding("a").await;
    assert_eq!(sidecar.api.delete("/v1/agents/a").await.status, 204);
    sidecar.api.get("/v1/agents/a").await.problem(404);
    assert_eq!(sidecar.api.guarded("a").await["generation"], 2);
    let late = sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    assert_eq!(late["outcome"], "stale");
    assert_eq!(sidecar.api.agent("a").await["active"], true);
}

#[tokio::test]
async fn the_database_stores_0_where_the_api_says_false() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(sidecar.dir.path().join("test.db"));
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let row: (i64, String) = sqlx::query_as("SELECT active, deactivated_by FROM agents WHERE agent_id = 'a'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(row, (0, "kill_switch".to_owned()));
    let at_ms: i64 =
        sqlx::query_scalar("SELECT at_ms FROM events WHERE event_type = 'kill_switch'").fetch_one(&pool).await.unwrap();
    assert_eq!(at_ms, START_MS as i64);
}
