//! Reads outside transactions, on the reading connections.
//!
//! Filters are appended only where asked for, so that each listing walks the one index that fits it. A search looks at
//! every agent: at ten thousand that is a few milliseconds, and an index for infixes would cost every write more.

use agent_kill_switch::wire::ScoreSample;
use sqlx::{QueryBuilder, Sqlite, SqlitePool};

use crate::model::{Agent, Event, Millis, Token};
use crate::store::{AgentQuery, EventQuery, EventRange, Meta, Result, row};

pub(super) async fn meta(pool: &SqlitePool) -> Result<Meta> {
    row::meta(&sqlx::query("SELECT epoch, rev FROM meta").fetch_one(pool).await?)
}

pub(super) async fn agent(pool: &SqlitePool, agent_id: &str) -> Result<Option<Agent>> {
    let found = sqlx::query("SELECT * FROM agents WHERE agent_id = ? AND deleted = 0")
        .bind(agent_id)
        .fetch_optional(pool)
        .await?;
    found.as_ref().map(row::agent).transpose()
}

pub(super) async fn agents(pool: &SqlitePool, query: &AgentQuery) -> Result<Vec<Agent>> {
    let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM agents WHERE deleted = 0");
    if let Some(after) = &query.after {
        sql.push(" AND agent_id > ").push_bind(after.as_str());
    }
    if let Some(search) = &query.search {
        let needle = search.to_ascii_lowercase();
        sql.push(" AND (instr(lower(agent_id), ").push_bind(needle.clone());
        sql.push(") > 0 OR instr(lower(name), ").push_bind(needle).push(") > 0)");
    }
    if let Some(active) = query.active {
        sql.push(" AND active = ").push_bind(active);
    }
    if let Some(by) = query.deactivated_by {
        sql.push(" AND deactivated_by = ").push_bind(row::deactivated_by_word(by));
    }
    if let Some(enabled) = query.kill_switch_enabled {
        sql.push(" AND kill_switch_enabled = ").push_bind(enabled);
    }
    sql.push(" ORDER BY agent_id LIMIT ").push_bind(query.limit);
    let rows = sql.build().fetch_all(pool).await?;
    rows.iter().map(row::agent).collect()
}

pub(super) async fn changes(pool: &SqlitePool, since: u64, limit: u32) -> Result<Vec<Agent>> {
    let rows = sqlx::query("SELECT * FROM agents WHERE rev > ? ORDER BY rev LIMIT ?")
        .bind(row::to_i64(since))
        .bind(limit)
        .fetch_all(pool)
        .await?;
    rows.iter().map(row::agent).collect()
}

pub(super) async fn events(pool: &SqlitePool, query: &EventQuery) -> Result<Vec<Event>> {
    let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM events WHERE ");
    let order = match query.range {
        EventRange::Before(id) => {
            sql.push("id < ").push_bind(id.map_or(i64::MAX, row::to_i64));
            "DESC"
        }
        EventRange::After(id) => {
            sql.push("id > ").push_bind(row::to_i64(id));
            "ASC"
        }
    };
    if let Some(agent_id) = &query.agent_id {
        sql.push(" AND agent_id = ").push_bind(agent_id.as_str());
    }
    if let Some(event_type) = query.event_type {
        sql.push(" AND event_type = ").push_bind(event_type.as_str());
    }
    if let Some(since) = query.since_ms {
        sql.push(" AND at_ms >= ").push_bind(row::to_i64(since));
    }
    if let Some(until) = query.until_ms {
        sql.push(" AND at_ms < ").push_bind(row::to_i64(until));
    }
    sql.push(" ORDER BY id ").push(order).push(" LIMIT ").push_bind(query.limit);
    let rows = sql.build().fetch_all(pool).await?;
    rows.iter().map(row::event).collect()
}

pub(super) async fn scores(
    pool: &SqlitePool,
    agent_id: &str,
    since_ms: Millis,
    limit: u32,
) -> Result<Vec<ScoreSample>> {
    let rows = sqlx::query("SELECT * FROM scores WHERE agent_id = ? AND at_ms >= ? ORDER BY id DESC LIMIT ?")
        .bind(agent_id)
        .bind(row::to_i64(since_ms))
        .bind(limit)
        .fetch_all(pool)
        .await?;
    rows.iter().rev().map(row::score).collect()
}

pub(super) async fn tokens(pool: &SqlitePool) -> Result<Vec<Token>> {
    let rows = sqlx::query("SELECT * FROM tokens ORDER BY created_ms, token_id").fetch_all(pool).await?;
    rows.iter().map(row::token).collect()
}

pub(super) async fn pending_alerts(pool: &SqlitePool) -> Result<Vec<u64>> {
    let ids: Vec<i64> =
        sqlx::query_scalar("SELECT event_id FROM alert_outbox ORDER BY event_id").fetch_all(pool).await?;
    Ok(ids.into_iter().filter_map(|id| u64::try_from(id).ok()).collect())
}
