//! `/metrics`, in Prometheus' text form.
//!
//! Counters and latencies go through the process-wide recorder. What describes this moment (sync age of each Envoy,
//! depth of the outbox) is written out when asked for, so that an Envoy that is gone leaves no line behind.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::Instant;

use super::App;
use super::problem::Result;

/// Seconds; the last one is a full long poll.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The recorder of this process, installed on first use; none if another one was there before.
pub fn install_recorder() -> Option<&'static PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let install = || PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?.install_recorder().ok();
    let recorder = RECORDER.get_or_init(install).as_ref();
    describe();
    recorder
}

fn describe() {
    metrics::describe_counter!("kill_switch_kills_total", "Kill reports taken, by what became of them");
    metrics::describe_counter!("kill_switch_requests_total", "Agents' requests that filters saw");
    metrics::describe_counter!("kill_switch_requests_refused_total", "Agents' requests that filters refused");
    metrics::describe_counter!("kill_switch_agents_over_limit_total", "Unknown agents left out");
    metrics::describe_counter!("kill_switch_auth_failures_total", "Requests without a valid token");
    metrics::describe_counter!("kill_switch_alert_attempts_total", "Tries to deliver an alert, by channel and outcome");
    metrics::describe_histogram!("kill_switch_api_request_seconds", "Time to answer, by route");
}

/// Times a request, by route rather than by path: paths hold agent ids, and those have no end.
pub(super) async fn measure(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().to_string();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    let labels = [("method", method), ("route", route), ("status", status)];
    metrics::histogram!("kill_switch_api_request_seconds", &labels).record(started.elapsed().as_secs_f64());
    response
}

pub(super) async fn render(State(app): State<App>) -> Result<Response> {
    let mut text = install_recorder().map(PrometheusHandle::render).unwrap_or_default();
    let depth = app.service.alert_outbox_depth().await?;
    let rev = app.service.rev();
    let _ = write!(
        text,
        "# TYPE kill_switch_alert_outbox_depth gauge\nkill_switch_alert_outbox_depth {depth}\n\
         # TYPE kill_switch_revision gauge\nkill_switch_revision {rev}\n"
    );
    sync_ages(&app, &mut text);
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, content_type)], text).into_response())
}

fn sync_ages(app: &App, text: &mut String) {
    let (now_ms, current) = (app.service.now(), app.service.rev());
    let envoys = app.service.envoys();
    text.push_str("# TYPE kill_switch_sync_age_seconds gauge\n");
    for envoy in &envoys {
        let age = now_ms.saturating_sub(envoy.last_seen_ms) as f64 / 1000.0;
        let _ = writeln!(text, "kill_switch_sync_age_seconds{{envoy=\"{}\"}} {age}", escape(&envoy.envoy));
    }
    text.push_str("# TYPE kill_switch_sync_behind_revisions gauge\n");
    for envoy in &envoys {
        let behind = current.saturating_sub(envoy.applied_rev.unwrap_or_default());
        let _ = writeln!(text, "kill_switch_sync_behind_revisions{{envoy=\"{}\"}} {behind}", escape(&envoy.envoy));
    }
}

/// A label's value: the format has three characters that must not stand for themselves.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
