//! Who asks, and whether they may.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use super::App;
use super::problem::{Problem, Result};
use crate::model::Scope;
use crate::service::Identity;

/// Lets a request through to a handler if its token grants the scope; the handler then finds the [`Identity`].
pub(super) async fn require(
    State((app, needed)): State<(App, Scope)>,
    mut request: Request,
    next: Next,
) -> Result<Response> {
    let who = identify(&app, &request)?;
    if !who.scope.grants(needed) {
        let detail = format!("this needs a token of scope {}; yours is {}", needed.as_str(), who.scope.as_str());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

/// What is not there is nobody's business without a token.
pub(super) async fn not_found(State(app): State<App>, uri: Uri, request: Request) -> Result<Response> {
    identify(&app, &request)?;
    Err(Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", uri.path())))
}

pub(super) async fn method_not_allowed(State(app): State<App>, method: Method, request: Request) -> Result<Response> {
    identify(&app, &request)?;
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not understood here")))
}

fn identify(app: &App, request: &Request) -> Result<Identity> {
    let presented = bearer(request.headers());
    if let Some(who) = presented.and_then(|secret| app.service.identify(secret)) {
        return Ok(who);
    }
    metrics::counter!("kill_switch_auth_failures_total").increment(1);
    // Requests that did not come through a socket, as in a test, have no address.
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    if let Some(seconds) = app.failures.note(from.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), Instant::now()) {
        let detail = "too many failed authentications from this address";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(seconds));
    }
    tracing::warn!(?from, path = request.uri().path(), "authentication failed");
    let detail = match presented {
        Some(_) => "the token is not valid",
        None => "an Authorization header with a bearer token is needed",
    };
    Err(Problem::new(StatusCode::UNAUTHORIZED, detail))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}
