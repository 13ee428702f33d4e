//! `/v1/events`: what happened, the newest first, or from a point onwards for those who follow.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use super::App;
use super::params::Params;
use super::problem::{Problem, Result};
use crate::clock::rfc3339;
use crate::model::{Event, EventType};
use crate::store::{EventQuery, EventRange};

/// An event as the API shows it: what differs by type stands beside what every event has.
#[derive(Serialize)]
struct EventView<'a> {
    id: u64,
    at: String,
    event_type: EventType,
    agent_id: &'a str,
    generation: u64,
    actor: &'a str,
    reason: &'a str,
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
    let range = range(&mut params)?;
    let types: Vec<_> = EventType::ALL.map(EventType::as_str).into();
    let query = EventQuery {
        range,
        agent_id: params.text("agent_id"),
        event_type: params.parsed("event_type", &format!("one of {}", types.join(", ")), EventType::parse)?,
        since_ms: params.time("since")?,
        until_ms: params.time("until")?,
        limit: limit + 1,
    };
    params.finish()?;
    let found = app.service.events(&query).await?;
    let page = found.get(..limit as usize).unwrap_or(&found);
    let has_more = found.len() > page.len();
    let next_cursor = page.last().filter(|_| has_more).map(|event| event.id.to_string());
    Ok(Json(EventPage { events: page.iter().map(EventView::from).collect(), next_cursor }).into_response())
}

/// Pages back in time by `cursor`; `after` asks for what came later, the oldest first.
fn range(params: &mut Params) -> Result<EventRange> {
    let cursor: Option<u64> = params.number("cursor")?;
    match (params.number("after")?, cursor) {
        (Some(_), Some(_)) => Err(Problem::invalid("after", "after and cursor exclude each other")),
        (Some(after), None) => Ok(EventRange::After(after)),
        (None, before) => Ok(EventRange::Before(before)),
    }
}
