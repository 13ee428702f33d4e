//! Authentication by bearer token, and the scope that a route needs.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use super::App;
use super::failures::client_address;
use super::identified::OnIdentified;
use super::problem::{Problem, Result};
use crate::model::Scope;
use crate::service::Identity;

/// Passes a request on if its token grants the scope that the route needs. The handler finds the caller's [`Identity`]
/// in the request's extensions.
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
    OnIdentified::call(request.extensions());
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

/// Answers for paths that no route has. Only callers with a valid token learn that a path does not exist.
pub(super) async fn not_found(State(app): State<App>, uri: Uri, request: Request) -> Result<Response> {
    identify(&app, &request)?;
    Err(Problem::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", uri.path())))
}

pub(super) async fn method_not_allowed(State(app): State<App>, method: Method, request: Request) -> Result<Response> {
    identify(&app, &request)?;
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not allowed for this path")))
}

fn identify(app: &App, request: &Request) -> Result<Identity> {
    let secret = bearer(request.headers());
    if let Some(who) = secret.and_then(|secret| app.service.identify(secret)) {
        return Ok(who);
    }
    metrics::counter!("kill_switch_auth_failures_total").increment(1);
    let from = client_address(request);
    if let Err(too_many) = app.failures.count(from, Instant::now()) {
        too_many.log(from);
        let detail = "too many failed authentications from this address";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(too_many.seconds));
    }
    tracing::warn!(%from, path = request.uri().path(), "authentication failed");
    let detail = match secret {
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
