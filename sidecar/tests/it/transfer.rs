//! A database is carried over to the other kind and back, and nothing of it is lost or changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use serde_json::json;
use sqlx::{Column as _, Row as _};

use crate::support::postgres::database;
use crate::support::process::{Process, binary};
use crate::support::{Api, kill, stop};

/// All rows of all tables of a SQLite file, as text, sorted. The tables of migrations are left out.
async fn content(path: &Path) -> BTreeMap<String, Vec<String>> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).read_only(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> '_sqlx_migrations'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&pool).await.unwrap();
    let mut content = BTreeMap::new();
    for table in tables {
        // `quote` writes a value so that two values of different types are different texts.
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT * FROM {table} LIMIT 1"))).fetch_all(&pool).await;
        let columns: Vec<_> = rows
            .unwrap()
            .first()
            .map(|row| row.columns().iter().map(|column| format!("quote(\"{}\")", column.name())).collect())
            .unwrap_or_default();
        let columns = if columns.is_empty() { "''".to_owned() } else { columns.join(" || '|' || ") };
        let columns = if table == "meta" { "epoch || '|' || rev".to_owned() } else { columns };
        let sql = format!("SELECT {columns} FROM {table} ORDER BY 1");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&pool).await.unwrap();
        content.insert(table, rows.iter().map(|row| row.get::<String, _>(0)).collect());
    }
    pool.close().await;
    content
}

fn migrate(dir: &Path, from: &str, to: &str) -> Output {
    let mut command = binary();
    command.current_dir(dir).env("KILL_SWITCH_MIGRATE_TO", to).args(["migrate", "--from", from]).output().unwrap()
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Fills every table that is carried over.
async fn fill(api: &Api) {
    for agent in ["a", "b", "c"] {
        api.guarded(agent).await;
    }
    let agents: Vec<_> = (0..1_200).map(|n| json!({"agent_id": format!("seen-{n:04}")})).collect();
    for part in agents.chunks(600) {
        api.report("/v1/observations", json!({"agents": part})).await.ok();
    }
    let score =
        json!({"at_ms": 0, "score": 3.5, "similar_prompts": 2, "similar_responses": 0, "repeated_tool_calls": 1});
    api.report("/v1/observations", json!({"agents": [{"agent_id": "a", "scores": [score]}]})).await.ok();
    let rules = json!([{"match": "team/*", "enabled": true}, {"match": "*", "action": "observe"}]);
    api.put("/v1/policies/team", json!({"version": 1, "agents": {"d": {"scope": "session"}}, "rules": rules}))
        .await
        .ok();
    // Nothing listens there, so the deliveries stay.
    let target = "http://127.0.0.1:9/hook?key=1";
    api.post("/v1/alerts", json!({"channel": "webhook", "target": target, "name": "späte Ämter"})).await.ok();
    api.report("/v1/kills", kill("k1", "a", 1)).await.ok();
    api.report("/v1/kills", stop("s1", "b", 1)).await.ok();
    api.report("/v1/observations", json!({"agents": [{"agent_id": "a", "refused": 3}]})).await.ok();
    api.put("/v1/pause", json!({"for_seconds": 600, "reason": "a \"release\"", "by": "Ada"})).await.ok();
    api.delete("/v1/agents/c").await;
    api.post("/v1/tokens", json!({"name": "ci", "scope": "viewer"})).await.ok();
    crate::support::eventually("the observations are written", || async {
        api.get("/v1/agents/seen-1199").await.status == 200 && !api.events("event_type=paused").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn sqlite_to_postgresql_and_back_is_equal_in_every_row() {
    let Some(url) = database().await else { return };
    let (dir, mut process) = Process::start_in_new_dir(&["--allow-private-webhooks"]);
    fill(&process.api).await;
    let busy = refused(&migrate(dir.path(), "kill-switch.db", &url));
    assert!(busy.contains("another kill-switch serves this database"), "{busy}");
    process.terminate();
    process.child.0.wait().unwrap();

    let before = content(&dir.path().join("kill-switch.db")).await;
    let filled = before.iter().filter(|(_, rows)| !rows.is_empty()).count();
    assert!(filled >= before.len() - 3, "sessions, outbox and calls may be empty: {:?}", before.keys());
    assert_eq!(before["refusals"].len(), 1);
    let there = printed(&migrate(dir.path(), "kill-switch.db", &url));
    assert!(there.contains(&format!("agents              {}\n", before["agents"].len())), "{there}");
    assert!(there.contains(&format!("events              {}\n", before["events"].len())), "{there}");
    assert!(there.contains(" rows carried from kill-switch.db to postgres://"), "{there}");

    printed(&migrate(dir.path(), &url, "back.db"));
    let after = content(&dir.path().join("back.db")).await;
    for (table, rows) in &before {
        assert_eq!(rows, &after[table], "{table}");
    }

    let again = refused(&migrate(dir.path(), "kill-switch.db", &url));
    assert!(again.contains("nothing was carried over: the target is not empty: its table agents has rows"), "{again}");
}

#[tokio::test]
async fn a_server_goes_on_where_the_other_database_was_left() {
    let Some(url) = database().await else { return };
    let (dir, mut process) = Process::start_in_new_dir(&["--allow-private-webhooks"]);
    fill(&process.api).await;
    let (agent, events) = (process.api.agent("a").await, process.api.events("").await);
    let epoch = process.api.sync("since=0").await.synced().epoch;
    let rev = process.api.get("/v1/envoys").await.ok()["current_rev"].clone();
    process.terminate();
    process.child.0.wait().unwrap();
    printed(&migrate(dir.path(), "kill-switch.db", &url));

    let replica = Process::replica(dir.path(), &url, &[]);
    assert_eq!(replica.api.operator, process.api.operator, "the tokens are still valid");
    assert_eq!(replica.api.agent("a").await, agent);
    assert_eq!(replica.api.events("").await, events);
    let poll = format!("epoch={epoch}&since={rev}");
    assert_eq!(replica.api.sync(&poll).await.status, 304, "filters need not start over");
    replica.api.post("/v1/agents/a/activate", json!({})).await.ok();
    let newest = replica.api.events("limit=1").await[0]["id"].as_u64().unwrap();
    assert_eq!(newest, events[0]["id"].as_u64().unwrap() + 1, "numbers go on");
}

#[tokio::test]
async fn a_source_that_does_not_exist_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let said = refused(&migrate(dir.path(), "no.db", "to.db"));
    assert!(said.contains("no.db: there is no such file"), "{said}");
    assert!(!dir.path().join("no.db").exists() && !dir.path().join("to.db").exists());
}
