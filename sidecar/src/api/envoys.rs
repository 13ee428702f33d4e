//! `/v1/envoys`: who polls, and how far each has come.

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

/// The Envoys, and the revision that each should have.
#[derive(Serialize)]
pub(super) struct Envoys {
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
