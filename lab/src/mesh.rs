//! A mock LLM, the sidecar, and an Envoy with the filter, all on the loopback interface. Tests and the demo use it.
//!
//! [`Mesh`] owns its processes. [`Remote`] contains only the addresses of a mesh, so that the demo can also run against
//! processes that it has not started.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chat::Caller;
use crate::llm::MockLlm;
use crate::proc::{Envoy, Sidecar, SidecarOptions, wait_until, wait_until_some, wasm_module};
use crate::{EnvoyConfig, Filter, envoy_yaml};

/// How long to wait for something that should happen at once. A wait ends as soon as it happens, so this only has to be
/// long enough for a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

const ENFORCER: &str = "lab-enforcer-token-0123456789";
/// The operator's token in the demo and the tests.
pub const OPERATOR: &str = "lab-operator-token-0123456789";
const VIEWER: &str = "lab-viewer-token-0123456789ab";

/// Returns the environment variables of the sidecar. Tests kill more agents within a minute than a real fleet would, so a
/// storm of kills does not pause it.
pub(crate) fn environment() -> Vec<(String, String)> {
    let settings =
        [("ENFORCER_TOKEN", ENFORCER), ("OPERATOR_TOKEN", OPERATOR), ("VIEWER_TOKEN", VIEWER), ("STORM_KILLS", "0")];
    settings.map(|(name, value)| (format!("KILL_SWITCH_{name}"), value.to_owned())).to_vec()
}

/// The options of a mesh.
pub struct MeshOptions {
    /// The number of Envoy's worker threads.
    pub workers: u32,
    /// A module to use in place of the one that is released.
    pub module: Option<PathBuf>,
    /// Fields of the filter's configuration, in addition to the default ones or in place of them.
    pub filter: Value,
    /// Changes Envoy's configuration before Envoy is started.
    pub envoy: Box<dyn FnOnce(EnvoyConfig) -> EnvoyConfig + Send>,
    /// Whether the sidecar is started.
    pub sidecar_runs: bool,
    /// The address on which the sidecar listens, or `None` for a free port.
    pub sidecar_listen: Option<std::net::SocketAddr>,
    /// Changes the sidecar's options before it is started.
    pub sidecar: Box<dyn FnOnce(SidecarOptions) -> SidecarOptions + Send>,
    /// The level of what Envoy logs about the filter.
    pub wasm_log: &'static str,
}

impl Default for MeshOptions {
    fn default() -> MeshOptions {
        MeshOptions {
            workers: 2,
            module: None,
            filter: json!({}),
            envoy: Box::new(|config| config),
            sidecar_runs: true,
            sidecar_listen: None,
            sidecar: Box::new(|options| options),
            wasm_log: "info",
        }
    }
}

/// A running mesh. Its processes end when it is dropped.
pub struct Mesh {
    /// The upstream.
    pub llm: MockLlm,
    pub sidecar: Sidecar,
    pub envoy: Envoy,
    remote: Remote,
}

/// The addresses of a mesh, whose processes may run anywhere.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `http://host:port` of Envoy.
    pub envoy: String,
    /// `http://host:port` of the sidecar.
    pub sidecar: String,
    /// A token with the scope operator.
    pub operator: String,
}

impl Deref for Mesh {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

impl Mesh {
    /// Starts a mesh with the default options.
    pub async fn start() -> Mesh {
        Mesh::with(MeshOptions::default()).await
    }

    /// Starts a mesh with these options. If the sidecar is started, waits until Envoy has its policies.
    pub async fn with(options: MeshOptions) -> Mesh {
        let llm = MockLlm::start().await;
        let mut sidecar = Sidecar::stopped((options.sidecar)(SidecarOptions {
            environment: environment(),
            listen: options.sidecar_listen,
            ..SidecarOptions::default()
        }));
        if options.sidecar_runs {
            sidecar.resume().await;
        }
        let module = options.module.unwrap_or_else(wasm_module);
        let config = (options.envoy)(envoy_config(&llm, &sidecar, module, &options.filter));
        let started = Envoy::try_start_logging(&envoy_yaml(&config), options.workers, options.wasm_log).await;
        let envoy = started.unwrap_or_else(|log| panic!("Envoy did not start\n{log}"));
        let remote = Remote { envoy: envoy.url(), sidecar: sidecar.url(), operator: OPERATOR.to_owned() };
        let mesh = Mesh { llm, sidecar, envoy, remote };
        if options.sidecar_runs {
            mesh.settled().await;
        }
        mesh
    }

    /// Starts another Envoy with the same upstream and the same sidecar, and returns it with its address in place of the
    /// first one's. It has no policies before the first sync.
    pub async fn another_envoy(&self) -> (Envoy, Remote) {
        let config = envoy_config(&self.llm, &self.sidecar, wasm_module(), &json!({"envoy_name": "another"}));
        let envoy = Envoy::start(&envoy_yaml(&config), 1).await;
        let remote = Remote { envoy: envoy.url(), ..self.remote.clone() };
        (envoy, remote)
    }

    /// Returns how many connections each of Envoy's workers has accepted.
    pub async fn connections(&self) -> Vec<u64> {
        let stats = self.envoy.stats().await;
        let of_worker = |worker| stats.get(&format!("listener.agents.worker_{worker}.downstream_cx_total")).copied();
        (0..).map_while(of_worker).collect()
    }
}

/// Returns the configuration of an Envoy with the filter, whose configuration has these fields in addition to the default
/// ones or in place of them.
pub(crate) fn envoy_config(llm: &MockLlm, sidecar: &Sidecar, module: PathBuf, fields: &Value) -> EnvoyConfig {
    let mut filter = json!({"cluster": "kill-switch", "token": ENFORCER, "observe_interval_ms": 100});
    for (name, value) in fields.as_object().into_iter().flatten() {
        filter[name] = value.clone();
    }
    let config = EnvoyConfig::new(llm.address()).with_filter(Filter::new(module, filter), sidecar.address());
    // Room for the longest body that the filter holds by default, and two more reads.
    EnvoyConfig { buffer_limit: Some(10 << 20), ..config }
}

impl Remote {
    /// Returns a client that makes the calls of an agent.
    pub fn caller(&self, agent: &str) -> Caller {
        Caller::new(&self.envoy, agent)
    }

    /// Calls the sidecar's API as an operator, and returns the status and the body.
    pub async fn api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("{}{path}", self.sidecar);
        let method = method.parse().expect("the method is valid");
        let mut request = crate::http::client().request(method, url).bearer_auth(&self.operator);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("the sidecar answers");
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or(Value::Null))
    }

    /// Returns a counter or gauge of the sidecar, or 0 if it has none with this name.
    pub async fn sidecar_metric(&self, name: &str) -> f64 {
        let request = crate::http::client().get(format!("{}/metrics", self.sidecar)).bearer_auth(&self.operator);
        let answer = request.send().await.expect("the sidecar answers");
        let text = answer.text().await.expect("metrics are text");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value).unwrap_or(0.0)
    }

    /// Like `api`, but panics if the status is not a success, and returns only the body.
    async fn api_ok(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, body) = self.api(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {body}");
        body
    }

    /// Switches the kill switch on for an agent and applies `settings`. Does not wait until Envoy has applied them.
    pub async fn switch_on(&self, agent: &str, settings: &Value) {
        let mut policy = json!({"kill_switch_enabled": true});
        for (name, value) in settings.as_object().into_iter().flatten() {
            policy[name] = value.clone();
        }
        self.api_ok("PUT", &agent_path(agent), Some(policy)).await;
    }

    /// Like `switch_on`, and waits until Envoy has applied the settings.
    pub async fn enable(&self, agent: &str, settings: Value) {
        self.switch_on(agent, &settings).await;
        self.settled().await;
    }

    /// Activates an agent. Does not wait until Envoy has applied it.
    pub async fn activate(&self, agent: &str) {
        self.api_ok("POST", &format!("{}/activate", agent_path(agent)), Some(json!({"reason": "fixed"}))).await;
    }

    /// Deactivates an agent. Does not wait until Envoy has applied it.
    pub async fn deactivate(&self, agent: &str) {
        self.api_ok("POST", &format!("{}/deactivate", agent_path(agent)), Some(json!({"reason": "stop"}))).await;
    }

    /// Returns an agent as the sidecar's API shows it.
    pub async fn agent(&self, agent: &str) -> Value {
        self.api_ok("GET", &agent_path(agent), None).await
    }

    /// Returns an agent's events of one type, in any order.
    pub async fn events(&self, agent: &str, event_type: &str) -> Vec<Value> {
        let list = self.api_ok("GET", &format!("/v1/events?agent_id={}&limit=100", escaped(agent)), None).await;
        let all = list["events"].as_array().or(list["items"].as_array()).cloned();
        let mut events = all.unwrap_or_else(|| panic!("expected a list of events, got {list}"));
        events.retain(|event| event["event_type"] == event_type);
        events
    }

    /// Waits until an agent has an event of this type, and returns it.
    pub async fn event(&self, agent: &str, event_type: &str) -> Value {
        let what = format!("a {event_type} event of {agent}");
        wait_until_some(&what, SOON, || async { self.events(agent, event_type).await.into_iter().next() }).await
    }

    /// Waits until at least `count` kills of an agent are recorded, and returns all of them.
    pub async fn kills(&self, agent: &str, count: usize) -> Vec<Value> {
        let what = format!("{count} kills of {agent}");
        wait_until_some(&what, SOON, || async {
            Some(self.events(agent, "kill_switch").await).filter(|events| events.len() >= count)
        })
        .await
    }

    /// Waits until at least `count` scores of an agent have arrived, and returns all of them as the sidecar orders them.
    pub async fn scores(&self, agent: &str, count: usize) -> Vec<Value> {
        let (what, path) = (format!("{count} scores of {agent}"), format!("{}/scores?limit=1000", agent_path(agent)));
        wait_until_some(&what, SOON, || async {
            let scores = self.api_ok("GET", &path, None).await["scores"].as_array().cloned().unwrap_or_default();
            Some(scores).filter(|scores| scores.len() >= count)
        })
        .await
    }

    /// Waits until every Envoy has applied the sidecar's latest policies.
    pub async fn settled(&self) {
        wait_until("Envoy has applied the latest policy", SOON, || async {
            let state = self.api_ok("GET", "/v1/envoys", None).await;
            let envoys = state["envoys"].as_array().cloned().unwrap_or_default();
            let applied = |envoy: &Value| envoy["applied_rev"].as_u64() >= state["current_rev"].as_u64();
            !envoys.is_empty() && envoys.iter().all(applied)
        })
        .await;
    }
}

fn agent_path(agent: &str) -> String {
    format!("/v1/agents/{}", escaped(agent))
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}
