//! Live updates: a stream of server-sent events that tells a page to fetch itself again.
//!
//! The events do not say what has changed. The page fetches its own address and replaces the parts that differ, so there
//! is only one way to render a page. There are at most two events per second, however busy the agents are.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::time::sleep;

use super::Dashboard;
use super::error::Result;
use super::visitor::Visitor;

/// The shortest time between two events.
const PAUSE: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(super) async fn stream(State(dashboard): State<Dashboard>, visitor: Result<Visitor>) -> Response {
    // Not a redirect to the sign-in page: the browser would take it for a stream that ended, and connect again.
    let Ok(Visitor { cookie, .. }) = visitor else { return StatusCode::UNAUTHORIZED.into_response() };
    let service = Arc::clone(&dashboard.service);
    let state = (service.heartbeat(), service.stopping(), true);
    let beats = stream::unfold(state, move |(mut heartbeat, mut stopping, is_first)| {
        let (service, cookie) = (Arc::clone(&service), cookie.clone());
        async move {
            if !is_first {
                tokio::select! {
                    _ = stopping.wait_for(|stopping| *stopping) => return None,
                    changed = heartbeat.changed() => changed.ok()?,
                }
                sleep(PAUSE).await;
                // Ends the stream of a visitor who has signed out in another window.
                if let Some(cookie) = &cookie {
                    service.session(cookie).await.ok()??;
                }
            }
            let name = if is_first { "hello" } else { "change" };
            let beat = heartbeat.borrow_and_update().to_string();
            let event = Event::default().event(name).data(beat).retry(Duration::from_secs(1));
            Some((Ok::<_, Infallible>(event), (heartbeat, stopping, false)))
        }
    });
    Sse::new(beats).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
