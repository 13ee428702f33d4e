//! `/v1/agents/{agent_id}/fleet`: which Envoys serve an agent, the score that each of them sees, and the score of all calls
//! together.

use axum::Json;
use axum::extract::State;

use super::App;
use super::extract::PathId;
use super::problem::Result;
use crate::service::FleetView;

pub(super) async fn get(State(app): State<App>, PathId(agent_id): PathId) -> Result<Json<FleetView>> {
    app.service.agent(&agent_id).await?;
    Ok(Json(app.service.fleet_view(&agent_id)))
}
