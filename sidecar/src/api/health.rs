//! `/healthz` says that the process answers; `/readyz`, that its database can also be written.

use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use super::problem::{Problem, Result};

pub(super) const ALIVE: &str = "ok\n";

pub(super) async fn ready(State(app): State<App>) -> Result<&'static str> {
    app.service.ready().await.map(|()| "ready\n").map_err(|reason| {
        tracing::error!(reason, "not ready");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the database cannot be written").retry_after(1)
    })
}
