//! Requests as spans.
//!
//! A span continues the trace that the request names in `traceparent`, if it names one. Probes are not traced.

use std::sync::Arc;

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::KeyValue;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{FutureExt as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;

use super::{AGENT, Telemetry};

/// Routes that are requested all the time and say nothing.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) async fn trace(State(telemetry): State<Arc<Telemetry>>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    if route.as_deref().is_some_and(|route| PROBES.contains(&route)) {
        return next.run(request).await;
    }
    let method = request.method().to_string();
    let mut attributes = vec![
        KeyValue::new("http.request.method", method.clone()),
        KeyValue::new("url.path", request.uri().path().to_owned()),
    ];
    let name = match &route {
        Some(route) => format!("{method} {route}"),
        None => method,
    };
    attributes.extend(route.map(|route| KeyValue::new("http.route", route)));
    if let Ok(parameters) = request.extract_parts::<RawPathParams>().await {
        let agent = parameters.iter().find(|(name, _)| *name == "agent_id");
        attributes.extend(agent.map(|(_, agent_id)| KeyValue::new(AGENT, agent_id.to_owned())));
    }
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()));
    let builder = telemetry.tracer.span_builder(name).with_kind(SpanKind::Server).with_attributes(attributes);
    let context = parent.with_span(telemetry.tracer.build_with_context(builder, &parent));
    let response = next.run(request).with_context(context.clone()).await;
    let (span, status) = (context.span(), response.status());
    span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
    if status.is_server_error() {
        span.set_attribute(KeyValue::new("error.type", status.as_u16().to_string()));
        span.set_status(Status::error(""));
    }
    span.end();
    response
}
