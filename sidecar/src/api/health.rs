//! `/healthz` says that the process answers; `/readyz`, that its database can also be written.

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use super::problem::{Problem, Result};

pub(super) const ALIVE: &str = "ok\n";

pub(super) async fn ready(State(app): State<App>) -> Result<&'static str> {
    app.service.ready().await.map(|()| "ready\n").map_err(|not_ready| {
        tracing::error!(reason = not_ready.reason, "not ready");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, not_ready.detail).retry_after(1)
    })
}
