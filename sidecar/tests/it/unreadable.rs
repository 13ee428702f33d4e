//! Rows that cannot be read: they cost what they hold, and nothing else.

use serde_json::json;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use crate::support::process::{Process, binary};
use crate::support::receiver::Receiver;
use crate::support::{Sidecar, kill};

/// Changes the database as somebody else than the sidecar.
async fn change(sidecar: &Sidecar, sql: &'static str) {
    let options = SqliteConnectOptions::new().filename(sidecar.dir.path().join("test.db"));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    sqlx::query(sql).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn filters_are_told_of_every_agent_that_can_be_read_and_of_every_stop() {
    for broken in ["tools = '{'", "kill_switch_window_size = -1"] {
        let sidecar = Sidecar::guarding("active").await;
        for id in ["fine", "stopped", "deleted"] {
            sidecar.api.guarded(id).await;
        }
        let first = sidecar.api.sync("").await.synced();
        sidecar.api.post("/v1/agents/stopped/deactivate", json!({})).await.ok();
        sidecar.api.delete("/v1/agents/deleted").await;
        let sql = format!("UPDATE agents SET {broken} WHERE agent_id <> 'fine'");
        change(&sidecar, sql.leak()).await;

        let full = sidecar.api.sync("").await.synced();
        let told: Vec<_> = full.agents.iter().map(|agent| (agent.agent_id.as_str(), agent.active)).collect();
        assert_eq!(told, [("fine", true), ("stopped", false)], "{broken}");
        assert_eq!(full.rev, 6);
        let changes = sidecar.api.sync(&format!("epoch={}&since={}", first.epoch, first.rev)).await.synced();
        assert_eq!((changes.agents.len(), changes.deleted), (1, vec!["deleted".to_owned()]), "{broken}");

        sidecar.api.post("/v1/agents/fine/deactivate", json!({})).await.ok();
        let news = sidecar.api.sync(&format!("epoch={}&since={}", full.epoch, full.rev)).await.synced();
        assert_eq!((news.agents.len(), news.agents[0].active), (1, false), "{broken}");
    }
}

#[tokio::test]
async fn pages_of_agents_are_filled_although_some_cannot_be_read() {
    let sidecar = Sidecar::guarding("a").await;
    for id in ["b", "c", "d", "e"] {
        sidecar.api.guarded(id).await;
    }
    change(&sidecar, "UPDATE agents SET generation = -1 WHERE agent_id IN ('a', 'b', 'd')").await;
    let mut path = "/v1/agents?limit=1".to_owned();
    for id in ["c", "e"] {
        let page = sidecar.api.get(&path).await.ok();
        assert_eq!((page["agents"].as_array().unwrap().len(), &page["agents"][0]["agent_id"]), (1, &json!(id)));
        path = format!("/v1/agents?limit=1&cursor={}", page["next_cursor"].as_str().unwrap_or_default());
    }
    sidecar.api.get("/v1/agents/a").await.problem(500);
    let metrics = sidecar.api.get("/metrics").await.text;
    assert!(metrics.contains("kill_switch_unreadable_rows_total{table=\"agents\"}"), "{metrics}");
}

#[tokio::test]
async fn a_rule_or_an_agent_that_cannot_be_read_holds_back_no_alert_of_another_rule() {
    let (sidecar, receiver) = (Sidecar::guarding("a").await, Receiver::start().await);
    for _ in 0..2 {
        sidecar.api.post("/v1/alerts", json!({"channel": "webhook", "target": receiver.url})).await.ok();
    }
    sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok();
    change(&sidecar, "UPDATE agents SET tools = '{'").await;
    change(&sidecar, "UPDATE alert_rules SET cooldown_seconds = -1 WHERE rowid = (SELECT min(rowid) FROM alert_rules)")
        .await;
    assert_eq!(sidecar.deliver().await, 1);
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(sidecar.api.get("/v1/alerts").await.ok()["rules"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_pause_that_cannot_be_read_counts_as_over() {
    let sidecar = Sidecar::guarding("a").await;
    sidecar.api.put("/v1/pause", json!({"for_seconds": 600})).await.ok();
    assert_ne!(sidecar.api.sync("").await.synced().paused_for_ms, 0);
    change(&sidecar, "UPDATE pause SET since_ms = -1").await;
    assert_eq!(sidecar.api.sync("").await.synced().paused_for_ms, 0);
    assert_eq!(sidecar.api.report("/v1/kills", kill("k", "a", 1)).await.ok()["outcome"], "applied");
    // The next one replaces it.
    sidecar.api.put("/v1/pause", json!({"for_seconds": 600})).await.ok();
    assert_ne!(sidecar.api.sync("").await.synced().paused_for_ms, 0);
}

#[tokio::test]
async fn doctor_counts_the_rows_that_cannot_be_read() {
    let (dir, process) = Process::start_in_new_dir(&[]);
    process.api.guarded("a").await;
    let options = SqliteConnectOptions::new().filename(dir.path().join("kill-switch.db"));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    for (sql, expected) in
        [("UPDATE agents SET rev = rev", "can be written"), ("UPDATE agents SET tools = '{'", "1 agents")]
    {
        sqlx::query(sql).execute(&pool).await.unwrap();
        let doctor = binary().current_dir(dir.path()).args(["doctor", "--db", "kill-switch.db"]).output().unwrap();
        let shown = String::from_utf8(doctor.stdout).unwrap();
        let line = shown.lines().find(|line| line.starts_with("database")).unwrap();
        assert!(line.contains(expected), "{line}");
    }
}
