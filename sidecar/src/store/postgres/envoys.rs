//! Which Envoys are connected to any replica.

use super::line::Line;
use super::text;
use crate::model::{Millis, SeenEnvoy};
use crate::store::{Result, row};

/// Envoys that are read at most: as many as a replica keeps in memory.
const MOST: i64 = 1_000;

pub(super) async fn share(line: &mut Line, seen: &[SeenEnvoy], since_ms: Millis) -> Result<Vec<SeenEnvoy>> {
    if !seen.is_empty() {
        tell(line, seen).await?;
    }
    line.run(sqlx::query("DELETE FROM envoys WHERE last_seen_ms < $1").bind(row::to_i64(since_ms))).await?;
    let statement = sqlx::query(
        "SELECT envoy, applied_rev, last_seen_ms FROM envoys WHERE last_seen_ms >= $1
         ORDER BY last_seen_ms DESC LIMIT $2",
    )
    .bind(row::to_i64(since_ms))
    .bind(MOST);
    line.rows(statement).await?.iter().map(row::envoy).collect()
}

/// In the order of the names: two replicas that write the same rows must not wait for each other in a circle.
async fn tell(line: &mut Line, seen: &[SeenEnvoy]) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO envoys (envoy, applied_rev, last_seen_ms)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS seen (envoy, applied_rev, last_seen_ms)
         ORDER BY seen.envoy COLLATE \"C\"
         ON CONFLICT (envoy) DO UPDATE SET applied_rev = excluded.applied_rev, last_seen_ms = excluded.last_seen_ms
         WHERE envoys.last_seen_ms <= excluded.last_seen_ms",
    )
    .bind(seen.iter().map(|seen| text(&seen.envoy).into_owned()).collect::<Vec<String>>())
    .bind(seen.iter().map(|seen| seen.applied_rev.map(row::to_i64)).collect::<Vec<Option<i64>>>())
    .bind(seen.iter().map(|seen| row::to_i64(seen.last_seen_ms)).collect::<Vec<i64>>());
    line.run(statement).await?;
    Ok(())
}
