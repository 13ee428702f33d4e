//! OpenTelemetry: the sidecar's events as logs and its requests as traces, over OTLP (http/protobuf).
//!
//! It is off unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set. Everything else is configured by the variables that
//! OpenTelemetry defines, which its SDK reads. Records are exported in batches by threads of the SDK, so a receiver that is
//! slow or away delays nothing here; what does not fit into the queues is dropped.
//!
//! Attributes follow the conventions for generative AI: `gen_ai.agent.id` and `gen_ai.conversation.id`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use opentelemetry::KeyValue;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::trace::{TracerProvider as _, get_active_span};
use opentelemetry_otlp::{LogExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use crate::service::Service;

mod client;
mod logs;
mod requests;

/// The name of the service and of the instrumentation scope.
const NAME: &str = "kill-switch";
/// The attribute that names an agent.
const AGENT: &str = "gen_ai.agent.id";
/// The attribute that names a conversation of an agent.
const CONVERSATION: &str = "gen_ai.conversation.id";
/// How long the last records may take to be exported when the sidecar stops.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// What exports events and requests.
pub(crate) struct Telemetry {
    tracers: SdkTracerProvider,
    loggers: SdkLoggerProvider,
    tracer: SdkTracer,
    logger: SdkLogger,
}

impl Telemetry {
    /// Starts exporting, if the environment says where to. Returns an error if it says so in a way that makes no sense.
    pub(crate) fn from_environment() -> Result<Option<Arc<Self>>, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(endpoint) = variable("OTEL_EXPORTER_OTLP_ENDPOINT") else { return Ok(None) };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        if let Some(other) = variable("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
            tracing::warn!(protocol = other, "telemetry is sent as http/protobuf, and in no other protocol");
        }
        url::Url::parse(&endpoint)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| format!("OTEL_EXPORTER_OTLP_ENDPOINT ({endpoint}) must be an http or https URL"))?;
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|attributes| attributes.contains("service.name="));
        let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let resource = if is_named { resource } else { resource.with_service_name(NAME) }.build();
        let refused = |error: &dyn std::fmt::Display| format!("OTEL_EXPORTER_OTLP_ENDPOINT ({endpoint}): {error}");
        let client = client::Client::new().map_err(|error| refused(&error))?;
        let spans = SpanExporter::builder().with_http().with_http_client(client.clone());
        let spans = spans.with_protocol(Protocol::HttpBinary).build().map_err(|error| refused(&error))?;
        let logs = LogExporter::builder().with_http().with_http_client(client);
        let logs = logs.with_protocol(Protocol::HttpBinary).build().map_err(|error| refused(&error))?;
        let tracers = SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(spans).build();
        let loggers = SdkLoggerProvider::builder().with_resource(resource).with_batch_exporter(logs).build();
        tracing::info!(endpoint, "exporting events and requests by OTLP");
        let (tracer, logger) = (tracers.tracer(NAME), loggers.logger(NAME));
        Ok(Some(Arc::new(Self { tracers, loggers, tracer, logger })))
    }

    /// Exports the events of a service from now on.
    pub(crate) fn follow(self: &Arc<Self>, service: &Service) {
        let telemetry = Arc::clone(self);
        service.set_event_sink(Box::new(move |events| telemetry.exported(events)));
    }

    /// Exports the requests that a router answers.
    pub(crate) fn trace(self: &Arc<Self>, app: Router) -> Router {
        app.layer(from_fn_with_state(Arc::clone(self), requests::trace))
    }

    /// Exports what is left, and stops.
    pub(crate) async fn stop(&self) {
        let (tracers, loggers) = (self.tracers.clone(), self.loggers.clone());
        let stopping = tokio::task::spawn_blocking(move || {
            let _ = tracers.shutdown_with_timeout(SHUTDOWN);
            let _ = loggers.shutdown_with_timeout(SHUTDOWN);
        });
        let _ = stopping.await;
    }
}

/// Adds to the trace of the current request which agent and conversation it is about. Does nothing if it is not traced.
pub(crate) fn describe(agent_id: &str, conversation: Option<&str>) {
    get_active_span(|span| {
        span.set_attribute(KeyValue::new(AGENT, agent_id.to_owned()));
        if let Some(conversation) = conversation {
            span.set_attribute(KeyValue::new(CONVERSATION, conversation.to_owned()));
        }
    });
}
