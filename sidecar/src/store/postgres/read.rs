//! Reads outside transactions.
//!
//! Filters are appended only where asked for, so that each listing walks the one index that fits it. A search looks at
//! every agent: at ten thousand that is a few milliseconds, and an index for infixes would cost every write more.

use agent_kill_switch::wire::ScoreSample;
use sqlx::{Postgres, QueryBuilder, Row as _};

use super::columns;
use super::line::Line;
use super::text;
use crate::model::{Agent, Event, Millis, Token};
use crate::store::{AgentQuery, EventQuery, EventRange, Meta, Result, row};

pub(super) async fn meta(line: &mut Line) -> Result<Meta> {
    row::meta(&line.row(sqlx::query("SELECT epoch, rev FROM meta")).await?)
}

pub(super) async fn agent(line: &mut Line, agent_id: &str) -> Result<Option<Agent>> {
    let statement = sqlx::query(columns::agents!("WHERE agent_id = $1 AND NOT deleted")).bind(text(agent_id));
    line.optional(statement).await?.as_ref().map(row::agent).transpose()
}

pub(super) async fn agents(line: &mut Line, query: &AgentQuery) -> Result<Vec<Agent>> {
    let mut sql = QueryBuilder::<Postgres>::new(columns::agents!("WHERE NOT deleted"));
    if let Some(after) = &query.after {
        sql.push(" AND agent_id > ").push_bind(text(after));
    }
    if let Some(search) = &query.search {
        let needle = text(search).to_ascii_lowercase();
        sql.push(" AND (strpos(lower(agent_id), ").push_bind(needle.clone());
        sql.push(") > 0 OR strpos(lower(name), ").push_bind(needle).push(") > 0)");
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
    sql.push(" ORDER BY agent_id LIMIT ").push_bind(i64::from(query.limit));
    line.rows(sql.build()).await?.iter().map(row::agent).collect()
}

pub(super) async fn changes(line: &mut Line, since: u64, limit: u32) -> Result<Vec<Agent>> {
    let statement = sqlx::query(columns::agents!("WHERE rev > $1 ORDER BY rev LIMIT $2"))
        .bind(row::to_i64(since))
        .bind(i64::from(limit));
    line.rows(statement).await?.iter().map(row::agent).collect()
}

pub(super) async fn events(line: &mut Line, query: &EventQuery) -> Result<Vec<Event>> {
    let mut sql = QueryBuilder::<Postgres>::new(columns::events!("WHERE "));
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
        sql.push(" AND agent_id = ").push_bind(text(agent_id));
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
    sql.push(" ORDER BY id ").push(order).push(" LIMIT ").push_bind(i64::from(query.limit));
    line.rows(sql.build()).await?.iter().map(row::event).collect()
}

pub(super) async fn scores(line: &mut Line, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>> {
    let statement = sqlx::query(
        "SELECT at_ms, score, similar_prompts, similar_responses, repeated_tool_calls FROM scores
         WHERE agent_id = $1 AND at_ms >= $2 ORDER BY id DESC LIMIT $3",
    )
    .bind(text(agent_id))
    .bind(row::to_i64(since_ms))
    .bind(i64::from(limit));
    line.rows(statement).await?.iter().rev().map(row::score).collect()
}

pub(super) async fn tokens(line: &mut Line) -> Result<Vec<Token>> {
    let statement = sqlx::query(
        "SELECT token_id, name, scope, hash, created_ms, revoked_ms FROM tokens ORDER BY created_ms, token_id",
    );
    line.rows(statement).await?.iter().map(row::token).collect()
}

pub(super) async fn pending_alerts(line: &mut Line) -> Result<Vec<u64>> {
    let rows = line.rows(sqlx::query("SELECT event_id FROM alert_outbox ORDER BY event_id")).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get("event_id")).collect::<std::result::Result<_, _>>()?;
    Ok(ids.into_iter().filter_map(|id| u64::try_from(id).ok()).collect())
}
