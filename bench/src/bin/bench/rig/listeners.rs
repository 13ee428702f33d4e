//! The listeners, one for each filter that is compared.

use std::net::SocketAddr;

use lab::{EnvoyConfig, Filter};
use serde_json::{Value, json};

use super::filter;
use crate::paths;

/// How much of a body Envoy may buffer: `max_request_bytes`, which is 8 MiB by default, and two reads.
const BUFFER_LIMIT: u32 = 10 << 20;

/// The filter between client and upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// No filter.
    Plain,
    /// A wasm filter that holds the body and reads nothing.
    Noop,
    /// The kill switch.
    Ours,
    /// The kill switch with `fleet: false`: the sidecar does not compare its calls with those of other Envoys.
    Alone,
    /// A Lua filter that asks for the body and does nothing with it.
    Lua,
}

impl Listener {
    /// Those that are compared with each other in one Envoy.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Noop, Self::Ours, Self::Lua];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Noop => "noop",
            Self::Ours => "ours",
            Self::Alone => "alone",
            Self::Lua => "lua",
        }
    }

    pub fn config(self, upstream: SocketAddr) -> Value {
        let mut config = EnvoyConfig { buffer_limit: Some(BUFFER_LIMIT), ..EnvoyConfig::new(upstream) };
        match self {
            Self::Plain => {}
            Self::Noop => config.filter = Some(Filter::new(paths::noop_module(), json!({}))),
            Self::Ours => config.filter = Some(filter(true)),
            Self::Alone => config.filter = Some(filter(false)),
            Self::Lua => config.before = vec![lua()],
        }
        let mut listener = config.bootstrap()["static_resources"]["listeners"][0].take();
        listener["name"] = json!(self.name());
        listener["stat_prefix"] = json!(self.name());
        // Connections are distributed evenly over the workers, even if there are few.
        listener["connection_balance_config"] = json!({"exact_balance": {}});
        if self == Self::Noop {
            let filters = &mut listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
            // It must not share a virtual machine with the kill switch.
            filters[0]["typed_config"]["config"]["vm_config"]["vm_id"] = json!("noop");
        }
        listener
    }
}

fn lua() -> Value {
    json!({
        "name": "envoy.filters.http.lua",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": "function envoy_on_request(handle) handle:body() end"},
        },
    })
}
