//! The routes that filters use: sync, kill reports, observations and entries.
//!
//! Unlike the listings, sync ignores unknown parameters, because the filter may be newer than the sidecar.

use std::time::Duration;

use agent_kill_switch::wire::{EntryReport, KillReport, Observations};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::App;
use super::body::Report;
use super::params::Params;
use super::problem::Result;
use crate::service::{EntryReceipt, KillReceipt, ObservationReceipt, SyncRequest, Synced};
use crate::telemetry;

pub(super) async fn sync(State(app): State<App>, mut params: Params) -> Result<Response> {
    let request = SyncRequest {
        epoch: params.text("epoch").unwrap_or_default(),
        since: params.number("since")?.unwrap_or_default(),
        wait: Duration::from_secs(params.number("wait")?.unwrap_or_default()),
        envoy: params.text("envoy").unwrap_or_default(),
    };
    Ok(match app.service.sync(&request).await? {
        Synced::Answer(answer) => Json(answer).into_response(),
        Synced::Unchanged => StatusCode::NOT_MODIFIED.into_response(),
    })
}

pub(super) async fn kill(State(app): State<App>, Report(report): Report<KillReport>) -> Result<Json<KillReceipt>> {
    let session = report.session.as_ref();
    telemetry::describe(&report.agent_id, session.map(|session| session.id.as_ref().unwrap_or(&session.key).as_str()));
    Ok(Json(app.service.take_kill(report).await?))
}

pub(super) async fn observations(
    State(app): State<App>,
    Report(report): Report<Observations>,
) -> Result<Json<ObservationReceipt>> {
    Ok(Json(app.service.observe(&report).await?))
}

pub(super) async fn entries(State(app): State<App>, Report(report): Report<EntryReport>) -> Json<EntryReceipt> {
    Json(app.service.take_entries(report))
}
