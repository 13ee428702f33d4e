//! `/metrics`, in Prometheus' text format.
//!
//! Counters and latencies are collected by a recorder for the whole process. Gauges that describe the present (how long
//! ago each Envoy synced, how many alerts wait) are set in a new recorder for each scrape, so that an Envoy that is gone
//! leaves no line behind.

use std::sync::OnceLock;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;

use super::App;
use super::problem::Result;
use crate::service::Service;

/// Limits of the histogram's buckets, in seconds. The last one covers a full long poll.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

const COUNTERS: [(&str, &str); 14] = [
    ("kill_switch_kills_total", "Kill reports received, by outcome"),
    ("kill_switch_requests_total", "Agents' requests that filters saw"),
    ("kill_switch_requests_refused_total", "Agents' requests that filters refused"),
    ("kill_switch_answer_loops_total", "Answers in which a model repeated itself and was not cut"),
    ("kill_switch_fleet_entries_total", "Calls and answers from several Envoys that were merged"),
    ("kill_switch_fleet_entries_dropped_total", "Calls and answers that were not merged"),
    (
        "kill_switch_fleet_loops_forgotten_total",
        "Loops over several Envoys that could not be recorded and were given up",
    ),
    ("kill_switch_agents_over_limit_total", "Unknown agents that were ignored because traffic may not create more"),
    ("kill_switch_auth_failures_total", "Requests without a valid token"),
    ("kill_switch_alert_attempts_total", "Attempts to deliver an alert, by channel and outcome"),
    ("kill_switch_pauses_total", "Pauses of the whole fleet, by cause"),
    ("kill_switch_policies_applied_total", "Policy files that were applied and changed something"),
    ("kill_switch_connections_evicted_total", "Connections without an identified request that made room for others"),
    ("kill_switch_connections_refused_total", "Connections beyond the limit, which may only check the health"),
];

/// Returns the recorder of this process, which is installed on first use. Returns `None` if the process already had
/// another recorder.
pub fn install_recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let install = || PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?.install_recorder().ok();
    let recorder = RECORDER.get_or_init(install).as_ref();
    for (name, description) in COUNTERS {
        metrics::describe_counter!(name, description);
    }
    metrics::describe_gauge!("kill_switch_connections", "Open connections");
    metrics::describe_histogram!("kill_switch_api_request_seconds", "Time to answer, by route");
    recorder
}

/// Measures how long a request takes. The recorder keeps every combination of labels for ever, and requests without a token
/// are measured too. Each label therefore has few values: the route instead of the path, and a method only if it is known.
pub(super) async fn measure(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_label(request.method()).to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    let labels = [("method", method), ("route", route), ("status", status)];
    metrics::histogram!("kill_switch_api_request_seconds", &labels).record(started.elapsed().as_secs_f64());
    response
}

/// Returns the name of a method. A client may invent methods, which are all called "other".
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| method == *known).unwrap_or("other")
}

pub(super) async fn render(State(app): State<App>) -> Result<Response> {
    let mut text = install_recorder().map(PrometheusHandle::render).unwrap_or_default();
    let alerts = app.service.alert_outbox_depth().await?;
    let is_paused = app.service.pause().await?.is_some();
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        metrics::gauge!("kill_switch_paused").set(f64::from(u8::from(is_paused)));
        set_gauges(&app.service, alerts);
    });
    text.push_str(&recorder.handle().render());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn set_gauges(service: &Service, waiting_alerts: usize) {
    let (now_ms, rev) = (service.now(), service.rev());
    metrics::gauge!("kill_switch_alert_outbox_depth").set(waiting_alerts as f64);
    metrics::gauge!("kill_switch_revision").set(rev as f64);
    let (agents, windows) = service.fleet_size();
    metrics::gauge!("kill_switch_fleet_agents").set(agents as f64);
    metrics::gauge!("kill_switch_fleet_windows").set(windows as f64);
    for envoy in service.envoys() {
        let age_ms = now_ms.abs_diff(envoy.last_seen_ms);
        let behind = rev.saturating_sub(envoy.applied_rev.unwrap_or_default());
        let label = [("envoy", envoy.envoy)];
        metrics::gauge!("kill_switch_sync_age_seconds", &label).set(age_ms as f64 / 1000.0);
        metrics::gauge!("kill_switch_sync_behind_revisions", &label).set(behind as f64);
    }
}
