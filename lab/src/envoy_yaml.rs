//! The Envoy configuration of the tests, the benchmarks and the demo.
//!
//! It is minimal: one listener, one route, the filter, an upstream and the sidecar. A test that needs more changes the
//! JSON of [`EnvoyConfig::bootstrap`]. The text is also JSON, which is valid YAML and which `serde_json` escapes. Ports are
//! 0, so that Envoy takes free ports and parallel tests do not conflict.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::capabilities;

/// The variable parts of the configuration.
#[derive(Clone, Debug)]
pub struct EnvoyConfig {
    /// The upstream, cluster `llm`.
    pub llm: SocketAddr,
    /// The sidecar, cluster `kill-switch`. It need not run.
    pub sidecar: Option<SocketAddr>,
    /// The filter, or `None` for plain Envoy.
    pub filter: Option<Filter>,
    /// The listener's address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The admin endpoint; port 0 takes a free one.
    pub admin: SocketAddr,
    /// HTTP filters that run before ours.
    pub before: Vec<Value>,
    /// Routes before the one that sends everything to `llm`.
    pub routes: Vec<Value>,
    /// Clusters in addition to `llm` and `kill-switch`.
    pub clusters: Vec<Value>,
    /// The transport socket of the listener, for TLS.
    pub transport_socket: Option<Value>,
    /// The format of a line in `access.log`, which is written to Envoy's working folder.
    pub access_log: Option<String>,
    /// `request_body_buffer_limit` of the virtual host. Without it Envoy buffers as much as it reads at once, 1 MiB.
    pub buffer_limit: Option<u32>,
    /// Whether HTTP/2 is used to the upstream.
    pub upstream_http2: bool,
    /// A file with the listener, see [`EnvoyConfig::listeners`]. Envoy reads it again when it is replaced. Without it, the
    /// listener is part of the bootstrap and cannot be changed.
    pub listeners_file: Option<PathBuf>,
}

/// The wasm filter.
#[derive(Clone, Debug)]
pub struct Filter {
    pub module: PathBuf,
    /// The plugin configuration, given to the filter as JSON text.
    pub config: Value,
    /// `allow_on_headers_stop_iteration`: whether the filter may hold a request at its headers.
    pub hold: bool,
    /// `allowed_capabilities`: the functions that the filter may call and be called for. An empty list allows all.
    pub capabilities: Vec<String>,
    /// The environment variables that the filter sees.
    pub environment: BTreeMap<String, String>,
}

impl Filter {
    /// Creates a filter that holds requests at their headers, and may do what `envoy/envoy.yaml` allows.
    pub fn new(module: impl Into<PathBuf>, config: Value) -> Filter {
        let (capabilities, environment) = (capabilities::allowed(), BTreeMap::new());
        Filter { module: module.into(), config, hold: true, capabilities, environment }
    }
}

/// Returns the configuration as text for `envoy --config-path`.
pub fn envoy_yaml(config: &EnvoyConfig) -> String {
    format!("{:#}\n", config.bootstrap())
}

impl EnvoyConfig {
    /// Creates a configuration without the filter, on free ports, that sends everything to `llm`.
    pub fn new(llm: SocketAddr) -> EnvoyConfig {
        let free_port = SocketAddr::from(([127, 0, 0, 1], 0));
        EnvoyConfig {
            llm,
            sidecar: None,
            filter: None,
            listen: free_port,
            admin: free_port,
            before: Vec::new(),
            routes: Vec::new(),
            clusters: Vec::new(),
            transport_socket: None,
            access_log: None,
            buffer_limit: None,
            upstream_http2: false,
            listeners_file: None,
        }
    }

    /// Adds the filter and its sidecar.
    #[must_use]
    pub fn with_filter(self, filter: Filter, sidecar: SocketAddr) -> EnvoyConfig {
        EnvoyConfig { filter: Some(filter), sidecar: Some(sidecar), ..self }
    }

    /// Returns the bootstrap as JSON.
    pub fn bootstrap(&self) -> Value {
        let mut llm = cluster("llm", self.llm);
        if self.upstream_http2 {
            llm["typed_extension_protocol_options"] = json!({
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {}},
                },
            });
        }
        let sidecar = self.sidecar.map(|address| cluster("kill-switch", address));
        let clusters: Vec<Value> = [llm].into_iter().chain(sidecar).chain(self.clusters.iter().cloned()).collect();
        let mut bootstrap = json!({
            "node": {"id": "lab", "cluster": "lab"},
            "admin": {"address": socket(self.admin)},
            "static_resources": {"clusters": clusters},
        });
        match &self.listeners_file {
            Some(file) => {
                let source = json!({"path_config_source": {"path": file}, "resource_api_version": "V3"});
                bootstrap["dynamic_resources"] = json!({"lds_config": source});
            }
            None => bootstrap["static_resources"]["listeners"] = json!([self.listener()]),
        }
        bootstrap
    }

    /// Returns the content of [`listeners_file`](EnvoyConfig::listeners_file).
    pub fn listeners(&self) -> Value {
        let mut listener = self.listener();
        listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        json!({"resources": [listener]})
    }

    fn listener(&self) -> Value {
        let mut listener = json!({
            "name": "agents",
            // Without it statistics are named after the port, which differs each time.
            "stat_prefix": "agents",
            "address": socket(self.listen),
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": self.connection_manager(),
            }]}],
        });
        if let Some(socket) = &self.transport_socket {
            listener["filter_chains"][0]["transport_socket"] = socket.clone();
        }
        listener
    }

    fn connection_manager(&self) -> Value {
        // There is no timeout, because an answer may stream for a long time.
        let everything = json!({"match": {"prefix": "/"}, "route": {"cluster": "llm", "timeout": "0s"}});
        let routes: Vec<Value> = self.routes.iter().cloned().chain([everything]).collect();
        let mut virtual_host = json!({"name": "all", "domains": ["*"], "routes": routes});
        if let Some(limit) = self.buffer_limit {
            // The listener's limit is not used here, because it is also the amount that is read at once.
            virtual_host["request_body_buffer_limit"] = json!(limit);
        }
        let ours = self.filter.as_ref().map(http_filter);
        let router = named("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router");
        let filters = self.before.iter().cloned().chain(ours).chain([router]);
        let access_log = self.access_log.iter().map(|format| {
            json!({
                "name": "envoy.access_loggers.file",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                    "path": "access.log",
                    "log_format": {"text_format_source": {"inline_string": format!("{format}\n")}},
                },
            })
        });
        json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "agents",
            "upgrade_configs": [{"upgrade_type": "websocket"}],
            // By default Envoy drops the trailers of HTTP/1.1.
            "http_protocol_options": {"enable_trailers": true},
            "route_config": {"name": "agents", "virtual_hosts": [virtual_host]},
            "http_filters": filters.collect::<Vec<_>>(),
            "access_log": access_log.collect::<Vec<_>>(),
        })
    }
}

fn http_filter(filter: &Filter) -> Value {
    let allowed: Map<String, Value> = filter.capabilities.iter().map(|name| (name.clone(), json!({}))).collect();
    json!({
        "name": "agent-kill-switch",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": "agent-kill-switch",
                "root_id": "agent-kill-switch",
                "configuration": {
                    "@type": "type.googleapis.com/google.protobuf.StringValue",
                    "value": filter.config.to_string(),
                },
                // After a trap, which ends that worker's streams, the next request runs on a fresh VM.
                "failure_policy": "FAIL_RELOAD",
                "allow_on_headers_stop_iteration": filter.hold,
                "capability_restriction_config": {"allowed_capabilities": allowed},
                "vm_config": {
                    "vm_id": "agent-kill-switch",
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": filter.module}},
                    "environment_variables": {"key_values": filter.environment},
                },
            },
        },
    })
}

/// Returns an HTTP filter without configuration.
pub fn named(name: &str, message: &str) -> Value {
    json!({"name": name, "typed_config": {"@type": format!("type.googleapis.com/{message}")}})
}

fn cluster(name: &str, address: SocketAddr) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(address)}}]}],
        },
    })
}

fn socket(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}
