//! `/v1/events`: the events, newest first, or oldest first after a given event for clients that follow them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use super::page::cut;
use super::params::Params;
use super::problem::{Problem, Result};
use crate::model::{Event, EventType};
use crate::store::{EventQuery, EventRange};

#[derive(Serialize)]
pub(super) struct EventPage {
    events: Vec<Event>,
    next_cursor: Option<String>,
}

pub(super) async fn list(State(app): State<App>, mut params: Params) -> Result<Json<EventPage>> {
    let limit = params.limit()?;
    let types: Vec<_> = EventType::ALL.map(EventType::as_str).into();
    let query = EventQuery {
        range: range(&mut params)?,
        agent_id: params.text("agent_id"),
        event_type: params.parsed("event_type", &format!("one of {}", types.join(", ")), EventType::parse)?,
        since_ms: params.time("since")?,
        until_ms: params.time("until")?,
        limit: limit + 1,
    };
    params.finish()?;
    let (events, next_cursor) = cut(app.service.events(&query).await?, limit, |event| event.id.to_string());
    Ok(Json(EventPage { events, next_cursor }))
}

/// Reads `cursor`, which pages back in time, or `after`, which asks for later events, oldest first.
fn range(params: &mut Params) -> Result<EventRange> {
    let cursor: Option<u64> = params.number("cursor")?;
    match (params.number("after")?, cursor) {
        (Some(_), Some(_)) => Err(Problem::invalid("after", "after and cursor cannot be used together")),
        (Some(after), None) => Ok(EventRange::After(after)),
        (None, before) => Ok(EventRange::Before(before)),
    }
}
