//! The HTTP API. Handlers read a request, call the service and write the answer; they contain no SQL and no rules.
//!
//! Every route is one line of [`routes`], together with the scope that it needs. A route therefore cannot be added
//! without deciding who may use it, and a test can compare the OpenAPI document with the same list.
//!
//! Every answer carries the header [`MARKER`]. The filter needs it to tell an answer of the sidecar from one that Envoy
//! made itself, such as a 503.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::alerts::Alerts;
use crate::model::Scope;
use crate::service::Service;

mod agents;
mod alerts;
mod auth;
mod body;
mod enforcer;
mod envoys;
mod events;
mod extract;
pub(crate) mod failures;
mod fleet;
mod health;
pub(crate) mod identified;
mod kill_switch;
mod metrics;
mod openapi;
pub(crate) mod page;
mod params;
mod pause;
mod policies;
pub(crate) mod problem;
mod sessions;
mod story;
mod tokens;

pub use metrics::install_recorder;

/// The header that marks every answer of the sidecar. Its value is the sidecar's version.
pub const MARKER: HeaderName = HeaderName::from_static("x-kill-switch");

/// The state that all handlers share.
#[derive(Clone)]
pub struct App {
    service: Arc<Service>,
    alerts: Arc<Alerts>,
    failures: Arc<failures::Failures>,
}

impl App {
    /// Creates the state of an API over this service and its alerts.
    pub fn new(service: Arc<Service>, alerts: Arc<Alerts>) -> Self {
        Self { service, alerts, failures: Arc::default() }
    }
}

/// A route of the API.
pub struct Route {
    /// The HTTP method.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// The scope that the caller's token needs. `None` if no token is needed.
    pub scope: Option<Scope>,
    handler: MethodRouter<App>,
}

fn route<H, T>(method: Method, path: &'static str, scope: Option<Scope>, handler: H) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    // All methods below have a filter. One that had none would be served as GET, and the OpenAPI test would fail.
    let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
    Route { method, path, scope, handler: on(filter, handler) }
}

/// Returns all routes of the API.
pub fn routes() -> Vec<Route> {
    const OPEN: Option<Scope> = None;
    const ENFORCER: Option<Scope> = Some(Scope::Enforcer);
    const VIEWER: Option<Scope> = Some(Scope::Viewer);
    const OPERATOR: Option<Scope> = Some(Scope::Operator);
    vec![
        route(Method::GET, "/healthz", OPEN, health::ALIVE),
        route(Method::GET, "/readyz", OPEN, health::ready),
        route(Method::GET, "/metrics", VIEWER, metrics::render),
        route(Method::GET, "/openapi.json", VIEWER, openapi::DOCUMENT),
        route(Method::GET, "/v1/sync", ENFORCER, enforcer::sync),
        route(Method::POST, "/v1/kills", ENFORCER, enforcer::kill),
        route(Method::GET, "/v1/kills/{event_id}", VIEWER, story::get),
        route(Method::POST, "/v1/observations", ENFORCER, enforcer::observations),
        route(Method::POST, "/v1/entries", ENFORCER, enforcer::entries),
        route(Method::GET, "/v1/agents", VIEWER, agents::list),
        route(Method::GET, "/v1/agents/{agent_id}", VIEWER, agents::get),
        route(Method::PUT, "/v1/agents/{agent_id}", OPERATOR, agents::put),
        route(Method::PATCH, "/v1/agents/{agent_id}", OPERATOR, agents::patch),
        route(Method::DELETE, "/v1/agents/{agent_id}", OPERATOR, agents::delete),
        route(Method::GET, "/v1/agents/{agent_id}/kill-switch", VIEWER, kill_switch::get),
        route(Method::PATCH, "/v1/agents/{agent_id}/kill-switch", OPERATOR, kill_switch::patch),
        route(Method::POST, "/v1/agents/{agent_id}/activate", OPERATOR, agents::activate),
        route(Method::POST, "/v1/agents/{agent_id}/deactivate", OPERATOR, agents::deactivate),
        route(Method::GET, "/v1/agents/{agent_id}/scores", VIEWER, agents::scores),
        route(Method::GET, "/v1/agents/{agent_id}/fleet", VIEWER, fleet::get),
        route(Method::GET, "/v1/agents/{agent_id}/sessions", VIEWER, sessions::list),
        route(Method::POST, "/v1/agents/{agent_id}/sessions/{session_key}/resume", OPERATOR, sessions::resume),
        route(Method::GET, "/v1/events", VIEWER, events::list),
        route(Method::GET, "/v1/alerts", VIEWER, alerts::list),
        route(Method::POST, "/v1/alerts", OPERATOR, alerts::create),
        route(Method::GET, "/v1/alerts/history", VIEWER, alerts::history),
        route(Method::GET, "/v1/alerts/{rule_id}", VIEWER, alerts::get),
        route(Method::PATCH, "/v1/alerts/{rule_id}", OPERATOR, alerts::patch),
        route(Method::DELETE, "/v1/alerts/{rule_id}", OPERATOR, alerts::delete),
        route(Method::POST, "/v1/alerts/{rule_id}/test", OPERATOR, alerts::test),
        route(Method::GET, "/v1/envoys", VIEWER, envoys::list),
        route(Method::GET, "/v1/pause", VIEWER, pause::get),
        route(Method::PUT, "/v1/pause", OPERATOR, pause::put),
        route(Method::DELETE, "/v1/pause", OPERATOR, pause::delete),
        route(Method::GET, "/v1/policies", VIEWER, policies::list),
        route(Method::GET, "/v1/policies/{name}", VIEWER, policies::export),
        route(Method::PUT, "/v1/policies/{name}", OPERATOR, policies::apply),
        route(Method::GET, "/v1/tokens", OPERATOR, tokens::list),
        route(Method::POST, "/v1/tokens", OPERATOR, tokens::create),
        route(Method::DELETE, "/v1/tokens/{token_id}", OPERATOR, tokens::revoke),
    ]
}

/// Returns the router that serves all [`routes`].
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for Route { path, scope, handler, .. } in routes() {
        let handler = match scope {
            Some(scope) => handler.route_layer(from_fn_with_state((app.clone(), scope), auth::require)),
            None => handler,
        };
        router = router.route(path, handler);
    }
    router
        .fallback(auth::not_found)
        .method_not_allowed_fallback(auth::method_not_allowed)
        .layer(from_fn(metrics::measure))
        .layer(from_fn(mark))
        .with_state(app)
}

async fn mark(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.status().is_server_error() && response.status() != StatusCode::SERVICE_UNAVAILABLE {
        tracing::warn!(status = response.status().as_u16(), "request failed");
    }
    let headers = response.headers_mut();
    headers.insert(MARKER, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
