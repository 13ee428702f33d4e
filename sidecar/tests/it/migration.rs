//! A database of the version before is migrated, and what it holds is still there.

use agent_kill_switch::wire::{AnswerLoop, Scope};
use kill_switch::model::{KillOutcome, KillRecord};
use kill_switch::store::{DeliveryQuery, Store};
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use crate::support::postgres::{database, execute};

const SQLITE: [&str; 3] = [
    include_str!("../../migrations/sqlite/0001_initial.sql"),
    include_str!("../../migrations/sqlite/0002_alerts.sql"),
    include_str!("../../migrations/sqlite/0003_access.sql"),
];
const POSTGRES: [&str; 4] = [
    include_str!("../../migrations/postgres/0001_initial.sql"),
    include_str!("../../migrations/postgres/0002_alerts.sql"),
    include_str!("../../migrations/postgres/0003_access.sql"),
    include_str!("../../migrations/postgres/0004_envoys.sql"),
];

/// An agent, the report that deactivated it, and a notice of it, as the version before wrote them.
const CONTENT: &str = "
    UPDATE meta SET rev = 1;
    INSERT INTO agents (agent_id, active, deactivated_by, generation, kill_switch_window_size, kill_switch_threshold,
        action, counting, retry_after_seconds, rev)
        VALUES ('a', FALSE, 'kill_switch', 7, 30, 12.5, 'deactivate', 'progress', 90, 1);
    INSERT INTO kills (kill_id, agent_id, generation, outcome, event_id, received_ms)
        VALUES ('k1', 'a', 7, 'applied', 3, 5), ('k2', 'a', 7, 'duplicate', 3, 6);
    INSERT INTO alert_deliveries (delivery_id, rule_id, channel, kind, agent_id, payload, status, created_ms,
        next_attempt_ms, give_up_ms)
        VALUES ('d1', 'r1', 'webhook', 'kill_switch', 'a', '{}', 'delivered', 5, 5, 100);
";

/// Returns the steps of the version before.
fn before(steps: &[&'static str]) -> Migrator {
    let migration = |(version, sql): (i64, &&'static str)| {
        Migration::new(version, "step".into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations((1..).zip(steps).map(migration).collect())
}

async fn check(store: Store) {
    let agent = store.agent("a").await.unwrap().unwrap();
    let policy = &agent.policy;
    assert_eq!((policy.generation, policy.kill_switch_window_size, policy.active), (7, 30, false));
    assert_eq!((policy.idle_reset_seconds, policy.scope), (120, Scope::Agent));
    assert_eq!((policy.session_stop_seconds, policy.escalate_after, &policy.reason), (3_600, 5, &None));
    assert_eq!((policy.answer_loop, policy.tools.is_empty()), (AnswerLoop::Observe, true));
    let history = store.deliveries(&DeliveryQuery { limit: 9, ..DeliveryQuery::default() }).await.unwrap();
    assert_eq!((history.len(), history[0].scope), (1, Scope::Agent));

    let record = |kill_id: &str, outcome: KillOutcome| KillRecord {
        kill_id: kill_id.to_owned(),
        agent_id: "a".to_owned(),
        generation: 7,
        outcome,
        event_id: 3,
        received_ms: 5,
        detected_ms: 5,
        scope: Scope::Agent,
    };
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.kill("k1").await.unwrap(), Some(record("k1", KillOutcome::Applied)));
    assert_eq!(tx.kill("k2").await.unwrap().unwrap().outcome, KillOutcome::Duplicate);
    tx.record_kill(&record("k3", KillOutcome::Stopped)).await.unwrap();
    tx.commit().await.unwrap();
    let second = store.begin().await.unwrap().record_kill(&record("k4", KillOutcome::Applied)).await;
    assert!(second.is_err(), "a generation is still killed once");
}

#[tokio::test]
async fn a_sqlite_file_of_the_version_before_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    before(&SQLITE).run(&pool).await.unwrap();
    sqlx::raw_sql(CONTENT).execute(&pool).await.unwrap();
    pool.close().await;
    check(Store::sqlite(&path).await.unwrap()).await;
}

#[tokio::test]
async fn a_postgresql_database_of_the_version_before_is_migrated() {
    let Some(url) = database().await else { return };
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    before(&POSTGRES).run(&pool).await.unwrap();
    pool.close().await;
    execute(&url, CONTENT).await;
    check(Store::postgres(&url).await.unwrap()).await;
}
