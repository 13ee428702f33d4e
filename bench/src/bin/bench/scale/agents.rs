//! A sidecar with many agents, each with the kill switch on.

use std::path::Path;

use lab::proc::Sidecar;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::rig;

/// Returns the name of an agent.
pub fn name(number: usize) -> String {
    format!("team-{}/agent-{number:06}", number % 100)
}

/// Starts a sidecar with this many agents.
pub async fn sidecar(agents: usize) -> Sidecar {
    let mut sidecar = rig::sidecar();
    // The first start creates the tables.
    sidecar.resume().await;
    sidecar.stop().await;
    create(&sidecar.folder().join("kill-switch.db"), agents).await;
    sidecar.resume().await;
    sidecar
}

/// Writes the agents in one statement, since the API would take minutes.
pub async fn create(database: &Path, agents: usize) {
    let options = SqliteConnectOptions::new().filename(database);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
    let pool = pool.unwrap_or_else(|error| panic!("{}: {error}", database.display()));
    let insert = "
        WITH RECURSIVE numbers(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?)
        INSERT INTO agents (agent_id, kill_switch_enabled, kill_switch_window_size, kill_switch_threshold, action,
                            counting, retry_after_seconds, rev)
        SELECT printf('team-%d/agent-%06d', number % 100, number), 1, 20, 10.0, 'deactivate', 'progress', 60,
               number + 1 + (SELECT rev FROM meta)
        FROM numbers";
    let written = sqlx::query(insert).bind(agents as i64).execute(&pool).await;
    written.unwrap_or_else(|error| panic!("{agents} agents: {error}"));
    let update = "UPDATE meta SET rev = (SELECT max(rev) FROM agents)";
    sqlx::query(update).execute(&pool).await.unwrap_or_else(|error| panic!("the revision: {error}"));
    pool.close().await;
}
