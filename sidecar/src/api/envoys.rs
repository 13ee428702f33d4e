//! `/v1/envoys`: which Envoys poll, and which revision each of them has applied.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use crate::service::EnvoyView;

#[derive(Serialize)]
pub(super) struct Envoys {
    /// The revision that every Envoy should have applied.
    current_rev: u64,
    envoys: Vec<EnvoyView>,
}

pub(super) async fn list(State(app): State<App>) -> Json<Envoys> {
    Json(Envoys { current_rev: app.service.rev(), envoys: app.service.envoys() })
}
