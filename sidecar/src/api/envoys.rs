//! `/v1/envoys`: which Envoys poll, and which revision each of them has applied.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use crate::clock::rfc3339;

#[derive(Serialize)]
struct EnvoyEntry {
    envoy: String,
    connected: bool,
    applied_rev: Option<u64>,
    last_seen: String,
}

#[derive(Serialize)]
pub(super) struct Envoys {
    /// The revision that every Envoy should have applied.
    current_rev: u64,
    envoys: Vec<EnvoyEntry>,
}

pub(super) async fn list(State(app): State<App>) -> Json<Envoys> {
    let current_rev = app.service.rev();
    let envoys = app.service.envoys().into_iter().map(|envoy| EnvoyEntry {
        envoy: envoy.envoy,
        connected: envoy.connected,
        applied_rev: envoy.applied_rev,
        last_seen: rfc3339(envoy.last_seen_ms),
    });
    Json(Envoys { current_rev, envoys: envoys.collect() })
}
