//! The whole thing on loopback: a mock LLM, the sidecar, and an Envoy with the filter. What tests and the demo start from.
//!
//! [`Mesh`] owns its processes; [`Remote`] knows a mesh by its addresses only, so that the same story can be told of one
//! that somebody else has started.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chat::Caller;
use crate::llm::MockLlm;
use crate::proc::{Envoy, Sidecar, SidecarOptions, wait_until, wait_until_some, wasm_module};
use crate::{EnvoyConfig, Filter, envoy_yaml};

/// How long to wait for something that should happen at once. Waiting ends when it happens, so this only has to be longer
/// than a busy machine takes.
pub const SOON: Duration = Duration::from_secs(60);

const ENFORCER: &str = "lab-enforcer-token-0123456789";
/// The operator's token, in the demo and the tests only.
pub const OPERATOR: &str = "lab-operator-token-0123456789";
const VIEWER: &str = "lab-viewer-token-0123456789ab";

/// What differs from the plain mesh.
pub struct MeshOptions {
    /// Envoy's worker threads.
    pub workers: u32,
    /// Another module than the one that is shipped.
    pub module: Option<PathBuf>,
    /// Members of the filter's configuration, over the plain ones.
    pub filter: Value,
    /// Changes Envoy's configuration before it is rendered.
    pub envoy: Box<dyn FnOnce(EnvoyConfig) -> EnvoyConfig + Send>,
    /// Whether the sidecar runs from the start.
    pub sidecar_runs: bool,
    /// Where the sidecar listens; none: a free port.
    pub sidecar_listen: Option<std::net::SocketAddr>,
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
        }
    }
}

/// A running mesh. Everything ends when it is dropped.
pub struct Mesh {
    /// The upstream.
    pub llm: MockLlm,
    /// The sidecar.
    pub sidecar: Sidecar,
    /// The proxy.
    pub envoy: Envoy,
    remote: Remote,
}

/// A mesh by its addresses: what can be asked of it, wherever its parts run.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `http://host:port` of the proxy.
    pub envoy: String,
    /// `http://host:port` of the sidecar.
    pub sidecar: String,
    /// A token of scope operator.
    pub operator: String,
}

impl Deref for Mesh {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

impl Mesh {
    /// The plain mesh, with two workers.
    pub async fn start() -> Mesh {
        Mesh::with(MeshOptions::default()).await
    }

    /// A mesh that differs.
    pub async fn with(options: MeshOptions) -> Mesh {
        let llm = MockLlm::start().await;
        let mut sidecar = Sidecar::stopped(SidecarOptions {
            environment: [("ENFORCER", ENFORCER), ("OPERATOR", OPERATOR), ("VIEWER", VIEWER)]
                .map(|(scope, token)| (format!("KILL_SWITCH_{scope}_TOKEN"), token.to_owned()))
                .to_vec(),
            listen: options.sidecar_listen,
            ..SidecarOptions::default()
        });
        if options.sidecar_runs {
            sidecar.resume().await;
        }
        let mut filter = json!({"cluster": "kill-switch", "token": ENFORCER, "observe_interval_ms": 100});
        for (name, value) in options.filter.as_object().into_iter().flatten() {
            filter[name] = value.clone();
        }
        let module = options.module.unwrap_or_else(wasm_module);
        let config = EnvoyConfig::new(llm.address()).with_filter(Filter::new(module, filter), sidecar.address());
        let config = (options.envoy)(EnvoyConfig { buffer_limit: Some(4 << 20), ..config });
        let envoy = Envoy::start(&envoy_yaml(&config), options.workers).await;
        let remote = Remote { envoy: envoy.url(), sidecar: sidecar.url(), operator: OPERATOR.to_owned() };
        let mesh = Mesh { llm, sidecar, envoy, remote };
        if options.sidecar_runs {
            mesh.settled().await;
        }
        mesh
    }

    /// How many connections each of Envoy's workers has taken.
    pub async fn connections(&self) -> Vec<u64> {
        let stats = self.envoy.stats().await;
        let of_worker = |worker| stats.get(&format!("listener.agents.worker_{worker}.downstream_cx_total")).copied();
        (0..).map_while(of_worker).collect()
    }
}

impl Remote {
    /// A client of an agent.
    pub fn caller(&self, agent: &str) -> Caller {
        Caller::new(&self.envoy, agent)
    }

    /// A call to the sidecar's API as operator: status and body.
    pub async fn api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("{}{path}", self.sidecar);
        let method = method.parse().expect("a method");
        let mut request = crate::http::client().request(method, url).bearer_auth(&self.operator);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("the sidecar answers");
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or(Value::Null))
    }

    /// A counter or gauge of the sidecar; 0 while it has none of that name.
    pub async fn sidecar_metric(&self, name: &str) -> f64 {
        let request = crate::http::client().get(format!("{}/metrics", self.sidecar)).bearer_auth(&self.operator);
        let answer = request.send().await.expect("the sidecar answers");
        let text = answer.text().await.expect("metrics are text");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value).unwrap_or(0.0)
    }

    async fn done(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, body) = self.api(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {body}");
        body
    }

    /// Switches the kill switch on for an agent, with settings beside, and waits until Envoy knows.
    pub async fn enable(&self, agent: &str, settings: Value) {
        let mut policy = json!({"kill_switch_enabled": true});
        for (name, value) in settings.as_object().into_iter().flatten() {
            policy[name] = value.clone();
        }
        self.done("PUT", &agent_path(agent), Some(policy)).await;
        self.settled().await;
    }

    /// Activates an agent. Does not wait for Envoy.
    pub async fn activate(&self, agent: &str) {
        self.done("POST", &format!("{}/activate", agent_path(agent)), Some(json!({"reason": "fixed"}))).await;
    }

    /// Deactivates an agent. Does not wait for Envoy.
    pub async fn deactivate(&self, agent: &str) {
        self.done("POST", &format!("{}/deactivate", agent_path(agent)), Some(json!({"reason": "stop"}))).await;
    }

    /// An agent as the sidecar sees it.
    pub async fn agent(&self, agent: &str) -> Value {
        self.done("GET", &agent_path(agent), None).await
    }

    /// The events of an agent of one type, in any order.
    pub async fn events(&self, agent: &str, event_type: &str) -> Vec<Value> {
        let list = self.done("GET", &format!("/v1/events?agent_id={}&limit=100", escaped(agent)), None).await;
        let all = list["events"].as_array().or(list["items"].as_array()).cloned();
        let mut events = all.unwrap_or_else(|| panic!("a list of events, not {list}"));
        events.retain(|event| event["event_type"] == event_type);
        events
    }

    /// Waits for the first event of a type.
    pub async fn event(&self, agent: &str, event_type: &str) -> Value {
        let what = format!("a {event_type} event of {agent}");
        wait_until_some(&what, SOON, || async { self.events(agent, event_type).await.into_iter().next() }).await
    }

    /// Waits until so many kills of an agent are recorded.
    pub async fn kills(&self, agent: &str, count: usize) -> Vec<Value> {
        let what = format!("{count} kills of {agent}");
        wait_until_some(&what, SOON, || async {
            Some(self.events(agent, "kill_switch").await).filter(|events| events.len() >= count)
        })
        .await
    }

    /// Waits until so many scores of an agent have arrived, and returns all, oldest first.
    pub async fn scores(&self, agent: &str, count: usize) -> Vec<Value> {
        let (what, path) = (format!("{count} scores of {agent}"), format!("{}/scores?limit=1000", agent_path(agent)));
        let mut scores = wait_until_some(&what, SOON, || async {
            let scores = self.done("GET", &path, None).await["scores"].as_array().cloned().unwrap_or_default();
            Some(scores).filter(|scores| scores.len() >= count)
        })
        .await;
        scores.sort_by(|one, other| one["at"].as_str().cmp(&other["at"].as_str()));
        scores
    }

    /// Waits until Envoy has applied what the sidecar says now.
    pub async fn settled(&self) {
        wait_until("Envoy has applied the latest policy", SOON, || async {
            let state = self.done("GET", "/v1/envoys", None).await;
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
