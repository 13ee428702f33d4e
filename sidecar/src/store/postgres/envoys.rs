//! The table of Envoys that any replica has heard from.

use serde_json::json;

use crate::model::{Millis, SeenEnvoy};
use crate::store::{Connection, Result, Row, Statement};

/// The largest number of Envoys to read, which is as many as a replica keeps in memory.
const MAX_ENVOYS: u32 = 1_000;

fn envoy(row: &Row) -> Result<SeenEnvoy> {
    Ok(SeenEnvoy {
        envoy: row.text("envoy")?,
        applied_rev: row.optional_integer("applied_rev")?,
        last_seen_ms: row.integer("last_seen_ms")?,
    })
}

/// Writes the Envoys that this replica has seen, deletes the old ones, and returns the rest.
pub(super) async fn share(
    connection: &mut dyn Connection,
    seen: &[SeenEnvoy],
    since_ms: Millis,
) -> Result<Vec<SeenEnvoy>> {
    if !seen.is_empty() {
        connection.run(save(seen)).await?;
    }
    connection.run(Statement::new("DELETE FROM envoys WHERE last_seen_ms < $1").bind(since_ms)).await?;
    let statement = Statement::new(
        "SELECT envoy, applied_rev, last_seen_ms FROM envoys WHERE last_seen_ms >= $1
         ORDER BY last_seen_ms DESC LIMIT $2",
    );
    connection.rows(statement.bind(since_ms).bind(MAX_ENVOYS)).await?.iter().map(envoy).collect()
}

/// Returns the statement that writes the Envoys in the order of their names, so that two replicas that write the same
/// rows cannot deadlock.
fn save(seen: &[SeenEnvoy]) -> Statement {
    let rows: Vec<_> = seen
        .iter()
        .map(|seen| json!({"envoy": seen.envoy, "applied_rev": seen.applied_rev, "last_seen_ms": seen.last_seen_ms}))
        .collect();
    let statement = Statement::new(
        "INSERT INTO envoys (envoy, applied_rev, last_seen_ms)
         SELECT envoy, applied_rev, last_seen_ms
         FROM jsonb_to_recordset($1::jsonb) AS seen (envoy text, applied_rev bigint, last_seen_ms bigint)
         ORDER BY envoy COLLATE \"C\"
         ON CONFLICT (envoy) DO UPDATE SET applied_rev = excluded.applied_rev, last_seen_ms = excluded.last_seen_ms
         WHERE envoys.last_seen_ms <= excluded.last_seen_ms",
    );
    statement.bind(json!(rows).to_string())
}
