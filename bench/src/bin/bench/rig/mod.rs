//! The set-up of all parts that use a real Envoy: an upstream and a client that use little CPU, and an Envoy with a
//! listener for each filter that is compared.
//!
//! One Envoy has all listeners, so that process, workers, upstream connections and caches are the same. Only the filter
//! differs.

pub mod client;
mod listeners;
pub mod pool;
pub mod upstream;

use std::net::SocketAddr;

use lab::mesh::Remote;
use lab::proc::{Envoy, Sidecar, SidecarOptions};
use lab::{EnvoyConfig, Filter};
use serde_json::{Value, json};

use client::Target;
pub use listeners::Listener;
use upstream::Upstream;

/// The token of the filter.
pub const ENFORCER: &str = "bench-enforcer-token-0123456789";
const OPERATOR: &str = "bench-operator-token-0123456789";

/// An upstream, a running sidecar, and an Envoy between client and upstream.
pub struct Rig {
    pub upstream: Upstream,
    pub envoy: Envoy,
    /// The sidecar's API.
    pub remote: Remote,
    /// Keeps the sidecar running.
    _sidecar: Sidecar,
}

impl Rig {
    /// Starts the upstream, the sidecar and Envoy.
    pub async fn start(listeners: &[Listener], workers: u32) -> Self {
        let upstream = Upstream::start();
        let mut sidecar = sidecar();
        sidecar.resume().await;
        let envoy = envoy(listeners, upstream.address, sidecar.address(), workers).await;
        Self { upstream, envoy, remote: remote(&sidecar), _sidecar: sidecar }
    }

    /// Returns a request of an agent that is to be answered in this way.
    pub fn target(&self, listener: Listener, agent: &str, answer: &str) -> Target {
        target(&self.envoy, listener, agent, answer)
    }
}

/// Returns a request of an agent through one of Envoy's listeners.
pub fn target(envoy: &Envoy, listener: Listener, agent: &str, answer: &str) -> Target {
    let address = envoy.listener(listener.name());
    Target { address, agent: agent.to_owned(), session: None, answer: answer.to_owned() }
}

/// Returns a sidecar that does not run yet.
pub fn sidecar() -> Sidecar {
    sidecar_with(&[])
}

/// Like [`sidecar`], with further settings: the ends of the names of environment variables, and their values.
pub fn sidecar_with(settings: &[(&str, &str)]) -> Sidecar {
    Sidecar::stopped(SidecarOptions { environment: environment(settings), ..SidecarOptions::default() })
}

/// Like `sidecar`, over the PostgreSQL with this URL.
pub fn sidecar_over(url: &str) -> Sidecar {
    let mut options = SidecarOptions { environment: environment(&[("DB", url)]), ..SidecarOptions::default() };
    options.arguments = ["serve", "--listen", "{listen}"].map(str::to_owned).to_vec();
    Sidecar::stopped(options)
}

fn environment(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let tokens = [
        ("ENFORCER_TOKEN", ENFORCER),
        ("OPERATOR_TOKEN", OPERATOR),
        ("VIEWER_TOKEN", "bench-viewer-token-0123456789ab"),
    ];
    let all = tokens.iter().chain(settings);
    all.map(|(name, value)| (format!("KILL_SWITCH_{name}"), (*value).to_owned())).collect()
}

/// Returns the filter with its default configuration, except that it may not tell the sidecar of calls.
fn filter(fleet: bool) -> Filter {
    Filter::new(lab::proc::wasm_module(), json!({"cluster": "kill-switch", "token": ENFORCER, "fleet": fleet}))
}

/// Starts an Envoy with these listeners, an upstream, and the sidecar's cluster.
pub async fn envoy(listeners: &[Listener], upstream: SocketAddr, sidecar: SocketAddr, workers: u32) -> Envoy {
    named_envoy("lab", listeners, upstream, sidecar, workers).await
}

/// Like `envoy`, with this name, by which the sidecar knows it.
pub async fn named_envoy(
    name: &str,
    listeners: &[Listener],
    upstream: SocketAddr,
    sidecar: SocketAddr,
    workers: u32,
) -> Envoy {
    let config = EnvoyConfig { sidecar: Some(sidecar), ..EnvoyConfig::new(upstream) };
    let mut bootstrap = config.bootstrap();
    let all: Vec<Value> = listeners.iter().map(|listener| listener.config(upstream)).collect();
    bootstrap["static_resources"]["listeners"] = Value::from(all);
    bootstrap["node"]["id"] = Value::from(name);
    Envoy::start(&bootstrap.to_string(), workers).await
}

/// Returns the sidecar's API.
pub fn remote(sidecar: &Sidecar) -> Remote {
    Remote { envoy: String::new(), sidecar: sidecar.url(), operator: OPERATOR.to_owned() }
}
