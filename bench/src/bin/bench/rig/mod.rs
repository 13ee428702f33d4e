//! What the parts in a real Envoy share: an upstream and a client that cost little, and an Envoy with a listener for each
//! filter that is compared.
//!
//! One Envoy for all of them: same process, same workers, same upstream connections, equally warm. What differs is the
//! filter.

pub mod client;
mod listeners;
pub mod pool;
pub mod upstream;

use std::net::SocketAddr;
use std::path::Path;

use lab::mesh::Remote;
use lab::proc::{Envoy, Sidecar, SidecarOptions};
use lab::{EnvoyConfig, Filter};
use serde_json::{Value, json};

pub use listeners::Listener;

const ENFORCER: &str = "bench-enforcer-token-0123456789";
const OPERATOR: &str = "bench-operator-token-0123456789";

/// A sidecar that does not run yet.
pub fn sidecar() -> Sidecar {
    let tokens = [("ENFORCER", ENFORCER), ("OPERATOR", OPERATOR), ("VIEWER", "bench-viewer-token-0123456789ab")];
    let environment = tokens.map(|(scope, token)| (format!("KILL_SWITCH_{scope}_TOKEN"), token.to_owned()));
    Sidecar::stopped(SidecarOptions { environment: environment.to_vec(), ..SidecarOptions::default() })
}

/// The filter as users configure it.
pub fn filter() -> Filter {
    Filter::new(lab::proc::wasm_module(), json!({"cluster": "kill-switch", "token": ENFORCER}))
}

/// An Envoy with these listeners before an upstream, and the sidecar's cluster.
pub async fn envoy(listeners: &[Listener], upstream: SocketAddr, sidecar: SocketAddr, workers: u32) -> Envoy {
    let config = EnvoyConfig { sidecar: Some(sidecar), ..EnvoyConfig::new(upstream) };
    let mut bootstrap = config.bootstrap();
    let all: Vec<Value> = listeners.iter().map(|listener| listener.config(upstream)).collect();
    bootstrap["static_resources"]["listeners"] = Value::from(all);
    Envoy::start(&bootstrap.to_string(), workers).await
}

/// The sidecar's API.
pub fn remote(sidecar: &Sidecar) -> Remote {
    Remote { envoy: String::new(), sidecar: sidecar.url(), operator: OPERATOR.to_owned() }
}

/// The size of a file in bytes.
pub fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).len()
}
