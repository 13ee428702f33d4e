//! `/v1/events`: the events, newest first, or oldest first after a given event for clients that follow them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use super::App;
use super::page::cut;
use super::params::Params;
use super::problem::{Problem, Result};
use crate::clock::rfc3339;
use crate::model::{Event, EventType};
use crate::store::{EventQuery, EventRange};

/// An event as the API and the dashboard's export show it.
#[derive(Serialize)]
pub(crate) struct EventView<'a> {
    id: u64,
    at: String,
    event_type: EventType,
    agent_id: &'a str,
    generation: u64,
    actor: &'a str,
    reason: &'a str,
    /// Members that depend on the type of the event.
    #[serde(flatten)]
    detail: &'a Map<String, Value>,
}

impl<'a> From<&'a Event> for EventView<'a> {
    fn from(event: &'a Event) -> Self {
        let body = &event.body;
        Self {
            id: event.id,
            at: rfc3339(body.at_ms),
            event_type: body.event_type,
            agent_id: &body.agent_id,
            generation: body.generation,
            actor: &body.actor,
            reason: &body.reason,
            detail: &body.detail,
        }
    }
}

#[derive(Serialize)]
struct EventPage<'a> {
    events: Vec<EventView<'a>>,
    next_cursor: Option<String>,
}

pub(super) async fn list(State(app): State<App>, mut params: Params) -> Result<Response> {
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
    Ok(Json(EventPage { events: events.iter().map(EventView::from).collect(), next_cursor }).into_response())
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
