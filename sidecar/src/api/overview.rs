//! `/v1/overview` and `/v1/activity`: all agents at once, as the dashboard's first page and `kill-switch top` show them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use super::params::Params;
use super::problem::Result;
use crate::service::{Activity, Overview, Ranking};

pub(super) async fn overview(State(app): State<App>) -> Result<Json<Overview>> {
    Ok(Json(app.service.overview().await?))
}

#[derive(Serialize)]
pub(super) struct Activities {
    agents: Vec<Activity>,
}

pub(super) async fn activity(State(app): State<App>, mut params: Params) -> Result<Json<Activities>> {
    let limit = params.limit()?;
    let ranking = params.parsed("sort", "score or rate", Ranking::parse)?.unwrap_or_default();
    params.finish()?;
    Ok(Json(Activities { agents: app.service.activity(ranking, limit).await? }))
}
