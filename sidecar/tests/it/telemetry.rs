//! Events and requests by OTLP: a real receiver decodes what the real binary sends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use lab::proc::Envoy;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Any, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::support::process::{Process, binary, token};
use crate::support::{Api, eventually, kill_with, stop};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What a collector got.
#[derive(Clone, Default)]
struct Collector {
    base: String,
    logs: Arc<Mutex<Vec<LogRecord>>>,
    spans: Arc<Mutex<Vec<Span>>>,
    /// The value of a header that the exporter is told to send.
    tenants: Arc<Mutex<Vec<String>>>,
    resources: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { base, ..Self::default() };
        let app = Router::new().fallback(take).with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        collector
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    fn span(&self, name: &str) -> Span {
        let spans = self.spans();
        let names: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
        spans.into_iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} is none of {names:?}"))
    }

    fn log(&self, event_name: &str) -> LogRecord {
        let logs = self.logs.lock().unwrap().clone();
        logs.into_iter().find(|log| log.event_name == event_name).unwrap_or_else(|| panic!("no log of {event_name}"))
    }
}

async fn take(State(collector): State<Collector>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    collector.tenants.lock().unwrap().extend(headers.get("x-tenant").map(|tenant| tenant.to_str().unwrap().to_owned()));
    match uri.path() {
        "/v1/logs" => {
            for resource in ExportLogsServiceRequest::decode(body).unwrap().resource_logs {
                collector.resources.lock().unwrap().push(attributes(&resource.resource.unwrap().attributes));
                let records = resource.scope_logs.into_iter().flat_map(|scope| scope.log_records);
                collector.logs.lock().unwrap().extend(records);
            }
        }
        "/v1/traces" => {
            for resource in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                collector.spans.lock().unwrap().extend(spans);
            }
        }
        _ => return StatusCode::NOT_FOUND,
    }
    StatusCode::OK
}

fn text(value: Option<&Any>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(AnyValue::StringValue(text)) => text.clone(),
        Some(AnyValue::IntValue(number)) => number.to_string(),
        Some(AnyValue::DoubleValue(number)) => number.to_string(),
        Some(AnyValue::BoolValue(value)) => value.to_string(),
        Some(AnyValue::ArrayValue(list)) => list.values.iter().map(|one| text(Some(one))).collect::<Vec<_>>().join(","),
        other => panic!("{other:?}"),
    }
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    attributes.iter().map(|one| (one.key.clone(), text(one.value.as_ref()))).collect()
}

#[track_caller]
fn assert_attributes(all: &[KeyValue], expected: &[(&str, &str)]) {
    let all = attributes(all);
    for (name, value) in expected {
        assert_eq!(all.get(*name).map(String::as_str), Some(*value), "{name} of {all:#?}");
    }
}

fn start(dir: &Path, endpoint: Option<&str>) -> Process {
    let mut command = binary();
    command.args(["serve", "--listen", "127.0.0.1:0", "--token-dir", "tokens"]).current_dir(dir);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=agents").env("OTEL_RESOURCE_ATTRIBUTES", "zone=a");
    // Far longer than the test takes, so everything is exported when the sidecar ends.
    command.env("OTEL_BSP_SCHEDULE_DELAY", "60000").env("OTEL_BLRP_SCHEDULE_DELAY", "60000");
    command.envs(endpoint.map(|endpoint| ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)));
    let mut process = Process::spawn(&mut command);
    process.api.enforcer = token(dir, "enforcer");
    process.api.operator = token(dir, "operator");
    process
}

/// Lets agents be killed, and ends the sidecar, which exports what is left.
async fn kills(process: &mut Process) {
    let api = &process.api;
    let report = kill_with("k", "team/a", 1, json!({"excerpt": "my secret prompt"}));
    let request = api.request(reqwest::Method::POST, "/v1/kills", &api.enforcer);
    let request = request.header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01")).json(&report);
    Api::take(request).await.ok();
    api.report("/v1/kills", stop("s", "b", 7)).await.ok();
    api.get("/v1/agents/team%2Fa/kill-switch").await.ok();
    api.get("/healthz").await;
    process.terminate();
    assert!(process.child.0.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_logs_and_requests_are_traces() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    kills(&mut start(dir.path(), Some(&collector.base))).await;

    let log = collector.log("kill_switch");
    assert_eq!((log.severity_text.as_str(), hex(&log.trace_id)), ("WARN", TRACE.to_owned()));
    assert!(text(log.body.as_ref()).starts_with("the same prompt and the same answer"));
    let expected = [
        ("gen_ai.agent.id", "team/a"),
        ("kill_switch.event_type", "kill_switch"),
        ("kill_switch.generation", "1"),
        ("kill_switch.score", "13"),
        ("kill_switch.tools", "read_file"),
        ("kill_switch.actor", "kill_switch"),
    ];
    assert_attributes(&log.attributes, &expected);
    let all = format!("{:?}", collector.logs.lock().unwrap());
    assert!(!all.contains("my secret prompt") && !all.contains("prompt_hash"), "{all}");
    let conversations: Vec<_> = collector.logs.lock().unwrap().iter().map(|log| attributes(&log.attributes)).collect();
    assert!(conversations.iter().any(|log| log.get("gen_ai.conversation.id").is_some_and(|id| id == "chat-7")));

    let kill = collector.span("POST /v1/kills");
    assert_eq!((hex(&kill.trace_id), hex(&kill.parent_span_id)), (TRACE.to_owned(), "00f067aa0ba902b7".to_owned()));
    assert_eq!(log.span_id, kill.span_id, "the event belongs to the request that caused it");
    let expected = [
        ("gen_ai.agent.id", "team/a"),
        ("http.request.method", "POST"),
        ("http.route", "/v1/kills"),
        ("http.response.status_code", "200"),
    ];
    assert_attributes(&kill.attributes, &expected);
    let read = collector.span("GET /v1/agents/{agent_id}/kill-switch");
    assert_attributes(&read.attributes, &[("gen_ai.agent.id", "team/a")]);
    assert!(collector.spans().iter().any(|span| attributes(&span.attributes).contains_key("gen_ai.conversation.id")));
    assert!(!collector.spans().iter().any(|span| span.name.contains("healthz")), "probes are not traced");
    let resource = collector.resources.lock().unwrap()[0].clone();
    assert_eq!((resource["service.name"].as_str(), resource["zone"].as_str()), ("kill-switch", "a"));
    assert_eq!(*collector.tenants.lock().unwrap(), ["agents", "agents"], "OTEL_EXPORTER_OTLP_HEADERS is respected");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_exported_unless_an_endpoint_is_set() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    kills(&mut start(dir.path(), None)).await;
    assert!(collector.spans().is_empty() && collector.logs.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_away_delays_nothing_and_a_wrong_endpoint_is_named() {
    let dir = tempfile::tempdir().unwrap();
    kills(&mut start(dir.path(), Some("http://127.0.0.1:9"))).await;
    let mut command = binary();
    command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(dir.path());
    let output = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("OTEL_EXPORTER_OTLP_ENDPOINT (collector:4318) must be an http or https URL"), "{said}");
}

/// What the filter leaves in filter state, left there by a filter of Envoy's own.
const FINDINGS: &str = r#"
                  - name: envoy.filters.http.set_filter_state
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config
                      on_request_headers:
                        - object_key: wasm.kill_switch_agent
                          factory_key: envoy.string
                          format_string: { text_format_source: { inline_string: "%REQ(x-agent-id)%" } }
                        - object_key: wasm.kill_switch_verdict
                          factory_key: envoy.string
                          format_string: { text_format_source: { inline_string: allow } }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn envoy_puts_the_findings_of_the_filter_into_its_own_logs_and_spans() {
    let collector = Collector::start().await;
    let port = collector.base.rsplit(':').next().unwrap();
    let comment = "                  # The filter of envoy/envoy.yaml goes here.";
    let yaml = include_str!("../../../envoy/otel.yaml");
    assert!(yaml.contains(comment));
    let yaml = yaml
        .replace(comment, FINDINGS)
        .replace("port_value: 10000", "port_value: 0")
        .replace("address: otel-collector, port_value: 4318", &format!("address: 127.0.0.1, port_value: {port}"));
    if let Err(problem) = Envoy::validate(&yaml) {
        assert!(problem.contains("no such field"), "{problem}");
        return lab::skip::because("this Envoy is older than 1.37");
    }
    let admin = "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\n";
    let envoy = Envoy::start(&format!("{admin}{yaml}"), 1).await;
    let request = reqwest::Client::new().get(format!("{}/v1/chat", envoy.url())).header("x-agent-id", "team/a");
    assert!(request.send().await.unwrap().status().is_success());
    eventually("log and span arrive", || async {
        !collector.logs.lock().unwrap().is_empty() && !collector.spans().is_empty()
    })
    .await;
    let log = collector.logs.lock().unwrap()[0].clone();
    let findings = [("gen_ai.agent.id", "team/a"), ("kill_switch.verdict", "allow"), ("kill_switch.score", "-")];
    assert_attributes(&log.attributes, &findings);
    let span = attributes(&collector.spans()[0].attributes);
    assert_eq!((span["gen_ai.agent.id"].as_str(), span["kill_switch.verdict"].as_str()), ("team/a", "allow"));
    assert!(span.get("kill_switch.score").is_none_or(String::is_empty), "{span:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
