//! The dashboard: pages that are rendered on the server, and forms that work without JavaScript. With JavaScript, pages
//! also update themselves.
//!
//! Like the API, the dashboard calls [`crate::service`] and [`crate::alerts`] and contains no rules of its own. The
//! content security policy allows nothing but the dashboard's own files: even if the name of an agent got past the
//! escaping, a script in it would not run.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{Redirect, Response};
use axum::routing::{get, post};

use crate::alerts::Alerts;
use crate::api::MARKER;
use crate::api::failures::Failures;
use crate::service::Service;

mod agent;
mod agents;
mod alerts;
mod assets;
mod banner;
mod browser;
mod chart;
mod envoys;
mod error;
mod events;
mod export;
mod fleet;
mod form;
mod kill_switch;
mod layout;
mod live;
mod login;
mod overview;
mod pause;
mod people;
mod query;
mod sessions;
mod show;
mod story;
mod timeline;
mod tools;
mod usage;
mod visitor;

pub use people::TrustedUsers;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                                       connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The state that all pages share.
#[derive(Clone)]
pub struct Dashboard {
    service: Arc<Service>,
    alerts: Arc<Alerts>,
    failures: Arc<Failures>,
    /// Whether browsers use HTTPS, here or at a proxy. Cookies are then bound to it.
    is_https: bool,
    /// Who may name the person that sends a request. `None` if nobody may.
    trusted_users: Option<Arc<TrustedUsers>>,
    /// The attempts to name a person from other addresses. They do not count as failures to sign in, because a proxy that
    /// is missing in the list would keep everybody behind it from signing in.
    refused_names: Arc<Failures>,
}

impl Dashboard {
    /// Creates the dashboard of this service and its alerts.
    pub fn new(service: Arc<Service>, alerts: Arc<Alerts>, is_https: bool) -> Self {
        let (failures, refused_names) = (Arc::default(), Arc::default());
        Self { service, alerts, failures, is_https, trusted_users: None, refused_names }
    }

    /// Believes a proxy that names the person who has signed in there.
    pub fn trusting(self, users: Option<TrustedUsers>) -> Self {
        Self { trusted_users: users.map(Arc::new), ..self }
    }
}

/// Adds the dashboard to the router of the API. Browsers then get pages instead of the API's problem details.
pub fn beside(api: Router, dashboard: Dashboard) -> Router {
    api.merge(router(dashboard.clone())).layer(from_fn_with_state(dashboard, browser::answer))
}

/// Returns the router for all pages and forms. Somebody who reloads the address of a form is led to the form's page.
pub fn router(dashboard: Dashboard) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/agents", get(agents::list))
        .route("/bulk/deactivate", post(agents::deactivate).get(agents::reloaded))
        .route("/bulk/undo", post(agents::undo).get(agents::reloaded))
        .route("/agents/{agent_id}", get(agent::page))
        .route("/agents/{agent_id}/kill-switch", post(agent::toggle).get(agent::reloaded))
        .route("/agents/{agent_id}/settings", post(agent::save).get(agent::reloaded))
        .route("/agents/{agent_id}/preview", post(agent::preview).get(agent::reloaded))
        .route("/agents/{agent_id}/tools", post(tools::ignore).get(agent::reloaded))
        .route("/agents/{agent_id}/activate", post(agent::activate).get(agent::reloaded))
        .route("/agents/{agent_id}/deactivate", post(agent::deactivate).get(agent::reloaded))
        .route("/agents/{agent_id}/sessions/{session_key}/resume", post(sessions::resume).get(sessions::reloaded))
        .route("/alerts", get(alerts::page).post(alerts::create))
        .route("/alerts/{rule_id}/test", post(alerts::test).get(alerts::reloaded))
        .route("/alerts/{rule_id}/switch", post(alerts::switch).get(alerts::reloaded))
        .route("/alerts/{rule_id}/delete", post(alerts::delete).get(alerts::reloaded))
        .route("/events", get(events::page))
        .route("/events/export", get(export::export))
        .route("/kills", get(story::list))
        .route("/kills/{event_id}", get(story::page))
        .route("/kills/{event_id}/{remedy}", post(story::act).get(story::reloaded))
        .route("/envoys", get(envoys::page))
        .route("/pause", post(pause::pause).get(home))
        .route("/resume", post(pause::resume).get(home))
        .route("/live", get(live::stream))
        .route("/login", get(login::page).post(login::sign_in))
        .route("/logout", post(login::sign_out).get(home))
        .route("/assets/app.css", get(assets::CSS))
        .route("/assets/app.js", get(assets::JS))
        .route("/favicon.ico", get(assets::ICON))
        .layer(from_fn(set_security_headers))
        .with_state(dashboard)
}

async fn home() -> Redirect {
    Redirect::to("/")
}

async fn set_security_headers(request: Request, next: Next) -> Response {
    secured(next.run(request).await)
}

/// Sets the headers that every answer of the dashboard has.
fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (MARKER, env!("CARGO_PKG_VERSION")),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
