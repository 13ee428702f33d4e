//! `/v1/pause`: the pause of the whole fleet. `PUT` begins it or replaces it, and `DELETE` ends it.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use super::body::Object;
use super::extract::Asking;
use super::problem::Result;
use crate::clock::rfc3339;
use crate::model::{Pause, PauseCause};
use crate::service::{Note, PauseRequest};

/// The pause as the API shows it. Every member but the first is null if the fleet is not paused.
#[derive(Serialize)]
pub(super) struct PauseView {
    paused: bool,
    since: Option<String>,
    until: Option<String>,
    cause: Option<PauseCause>,
    actor: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    event_id: Option<u64>,
}

impl From<Option<Pause>> for PauseView {
    fn from(pause: Option<Pause>) -> Self {
        Self {
            paused: pause.is_some(),
            since: pause.as_ref().map(|pause| rfc3339(pause.since_ms)),
            until: pause.as_ref().map(|pause| rfc3339(pause.until_ms)),
            cause: pause.as_ref().map(|pause| pause.cause),
            event_id: pause.as_ref().map(|pause| pause.event_id),
            by: pause.as_ref().and_then(|pause| pause.by.clone()),
            actor: pause.as_ref().map(|pause| pause.actor.clone()),
            reason: pause.map(|pause| pause.reason),
        }
    }
}

pub(super) async fn get(State(app): State<App>) -> Result<Json<PauseView>> {
    Ok(Json(app.service.pause().await?.into()))
}

pub(super) async fn put(
    State(app): State<App>,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Json<PauseView>> {
    let pause = app.service.start_pause(&PauseRequest::parse(&body)?, &caller.who).await?;
    Ok(Json(Some(pause).into()))
}

pub(super) async fn delete(
    State(app): State<App>,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Json<PauseView>> {
    app.service.end_pause(&Note::parse(&body)?, &caller.who).await?;
    Ok(Json(app.service.pause().await?.into()))
}
