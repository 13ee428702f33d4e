//! `/v1/agents/{agent_id}/sessions`: the conversations of an agent that are stopped, and how to let one go on.

use agent_kill_switch::wire::Action;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use super::body::Object;
use super::extract::{Asking, PathId};
use super::page::cut;
use super::params::Params;
use super::problem::Result;
use crate::clock::rfc3339;
use crate::model::{SessionStop, session_name};
use crate::service::Note;

/// A stopped conversation as the API shows it.
#[derive(Serialize)]
pub(super) struct SessionView {
    session_key: String,
    session: String,
    action: Action,
    reason: String,
    stopped: String,
    /// Null if a person let the conversation go on.
    until: Option<String>,
    releases: u32,
    kill_id: String,
    event_id: u64,
}

impl From<SessionStop> for SessionView {
    fn from(stop: SessionStop) -> Self {
        Self {
            session: session_name(stop.session_id.as_deref(), &stop.session_key),
            until: stop.released.is_none().then(|| rfc3339(stop.until_ms)),
            releases: stop.all_releases(),
            session_key: stop.session_key,
            action: stop.action,
            reason: stop.reason,
            stopped: rfc3339(stop.stopped_ms),
            kill_id: stop.kill_id,
            event_id: stop.event_id,
        }
    }
}

#[derive(Serialize)]
pub(super) struct SessionPage {
    sessions: Vec<SessionView>,
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    PathId(agent_id): PathId,
    mut params: Params,
) -> Result<Json<SessionPage>> {
    let limit = params.limit()?;
    let before = params.number("cursor")?;
    params.finish()?;
    let stops = app.service.stopped_sessions(&agent_id, before, limit + 1).await?;
    let (stops, next_cursor) = cut(stops, limit, |stop| stop.id.to_string());
    Ok(Json(SessionPage { sessions: stops.into_iter().map(SessionView::from).collect(), next_cursor }))
}

pub(super) async fn resume(
    State(app): State<App>,
    PathId((agent_id, session_key)): PathId<(String, String)>,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Json<SessionView>> {
    let note = Note::parse(&body)?;
    Ok(Json(app.service.resume_session(&agent_id, &session_key, &note, &caller).await?.into()))
}
