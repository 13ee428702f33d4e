//! A mesh with a fault proxy between Envoy and the sidecar, and what all drills do with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::table::Outcome;
use super::traffic::{Tally, Traffic};
use crate::agent::{Agent, Kind};
use crate::chat::Caller;
use crate::fault::FaultProxy;
use crate::format::Format;
use crate::mesh::{Mesh, MeshOptions, SOON};
use crate::proc::{Envoy, SidecarOptions, free_address, wait_until};
use crate::{EnvoyConfig, envoy_yaml};

/// How many healthy agents call during a drill.
const HEALTHY: usize = 4;
/// How long a looping agent calls at most before the drill gives up. Long enough for Envoy to be started again.
const LOOP_MAX: Duration = Duration::from_secs(120);

/// A mesh whose Envoy reaches the sidecar through a fault proxy.
pub struct Stage {
    pub mesh: Mesh,
    pub proxy: FaultProxy,
    config: EnvoyConfig,
    folder: TempDir,
}

impl Stage {
    /// Starts a stage.
    pub async fn start() -> Stage {
        Stage::with(|options| options).await
    }

    /// Starts a stage whose sidecar has other options.
    pub async fn with(change: impl FnOnce(SidecarOptions) -> SidecarOptions + Send + 'static) -> Stage {
        let sidecar = free_address();
        let proxy = FaultProxy::start(sidecar).await;
        let folder = TempDir::with_prefix("lab-drill-").expect("the temporary folder can be written");
        let (kept, listeners, address) = (Arc::new(Mutex::new(None)), listeners_file(&folder), proxy.address());
        let keep = Arc::clone(&kept);
        let envoy = move |config: EnvoyConfig| {
            // Envoy is started again and its listener is replaced, both at the same address.
            let (sidecar, listen, file) = (Some(address), free_address(), Some(listeners.clone()));
            let config = EnvoyConfig { sidecar, listen, listeners_file: file, ..config };
            std::fs::write(&listeners, config.listeners().to_string()).expect("the temporary folder can be written");
            *keep.lock().expect("nothing panics while it is locked") = Some(config.clone());
            config
        };
        let mesh = Mesh::with(MeshOptions {
            // A poll that is lost is noticed sooner.
            filter: json!({"sync_wait_seconds": 1}),
            envoy: Box::new(envoy),
            sidecar_listen: Some(sidecar),
            sidecar: Box::new(change),
            ..MeshOptions::default()
        })
        .await;
        let config = kept.lock().expect("nothing panics while it is locked").take();
        Stage { mesh, proxy, config: config.expect("the mesh asks for the configuration"), folder }
    }

    /// Kills Envoy at once (SIGKILL), and starts it again.
    pub async fn crash_envoy(&mut self) {
        self.mesh.envoy.kill();
        self.mesh.envoy = Envoy::start(&envoy_yaml(&self.config), 2).await;
    }

    /// Changes the configuration of the filter, so that Envoy replaces the listener or its filter chain, and waits until the
    /// old one is gone.
    pub async fn update_listener(&self, observe_interval_ms: u64) {
        let mut config = self.config.clone();
        if let Some(filter) = &mut config.filter {
            filter.config["observe_interval_ms"] = json!(observe_interval_ms);
        }
        let stat = async |name: &str| self.mesh.envoy.stat(&format!("listener_manager.{name}")).await;
        let before = stat("listener_modified").await;
        // Envoy watches for files that are moved to this path.
        let (file, new) = (listeners_file(&self.folder), self.folder.path().join("new.json"));
        let moved = std::fs::write(&new, config.listeners().to_string()).and_then(|()| std::fs::rename(&new, &file));
        moved.expect("the temporary folder can be written");
        wait_until("the listener is replaced", SOON, || async {
            stat("listener_modified").await > before
                && stat("total_listeners_draining").await == 0
                && stat("total_filter_chains_draining").await == 0
        })
        .await;
    }

    /// Switches the kill switch on or off for these agents, and waits until Envoy knows.
    pub async fn know(&self, agents: &[String], is_on: bool) {
        for agent in agents {
            self.mesh.switch_on(agent, &json!({"kill_switch_enabled": is_on})).await;
        }
        self.mesh.settled().await;
    }

    /// Starts healthy agents whose ids begin with `prefix`.
    pub async fn healthy(&self, prefix: &str) -> Traffic {
        let agents = names(&format!("{prefix}-healthy"), HEALTHY);
        self.know(&agents, true).await;
        let callers = agents.iter().map(|agent| vec![self.mesh.caller(agent)]).collect();
        let traffic = Traffic::start(callers, Duration::from_millis(20));
        traffic.goes_on(2 * HEALTHY).await;
        traffic
    }

    /// Returns how many kill reports wait in Envoy.
    pub async fn waiting(&self) -> u64 {
        self.mesh.envoy.stat("wasmcustom.kill_switch.outbox_depth").await
    }

    /// Returns how many kills of each agent are recorded.
    pub async fn kills(&self) -> BTreeMap<String, usize> {
        let (_, page) = self.mesh.api("GET", "/v1/events?event_type=kill_switch&limit=1000", None).await;
        let mut kills = BTreeMap::new();
        for event in page["events"].as_array().into_iter().flatten() {
            *kills.entry(event["agent_id"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
        kills
    }

    /// Waits until a kill of each of these agents is recorded and no report waits. Returns how long that took, or `None` if
    /// it took too long.
    pub async fn recorded(&self, loops: &[String]) -> Option<Duration> {
        let began = Instant::now();
        let all = async || {
            let kills = self.kills().await;
            loops.iter().all(|agent| kills.contains_key(agent)) && self.waiting().await == 0
        };
        while !all().await {
            if began.elapsed() > SOON {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(began.elapsed())
    }

    /// Counts the kills of these agents, and checks that each of them is refused.
    pub async fn outcome(&self, fault: &str, loops: &[String], healthy: Tally) -> Outcome {
        let kills = self.kills().await;
        let mut outcome =
            Outcome { fault: fault.to_owned(), loops: loops.len(), healthy, all_answered: true, ..Outcome::default() };
        for agent in loops {
            let recorded = kills.get(agent).copied().unwrap_or(0);
            let state = self.mesh.agent(agent).await;
            let is_stopped = state["active"] == Value::Bool(false) && is_refused(self.mesh.caller(agent)).await;
            outcome.lost += usize::from(recorded == 0 || !is_stopped);
            outcome.doubled += recorded.saturating_sub(1);
        }
        outcome
    }
}

fn listeners_file(folder: &TempDir) -> PathBuf {
    folder.path().join("listeners.json")
}

/// Returns the ids of `count` agents.
pub fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// Loops until a call is refused. Returns the number of answered calls before that, or `None` if no call is refused.
pub async fn loop_until_refused(caller: Caller) -> Option<usize> {
    let mut agent = Agent::new(Kind::Looping, caller, Format::OpenAiChat, false);
    let (began, mut answered) = (Instant::now(), 0);
    while began.elapsed() < LOOP_MAX {
        match agent.call().await.reply {
            Ok(reply) if reply.status == 403 => return Some(answered),
            Ok(_) => answered += 1,
            // Envoy has crashed, and is being started again.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    None
}

/// Whether the calls of an agent are refused that does not loop.
pub async fn is_refused(caller: Caller) -> bool {
    let call = Agent::new(Kind::Chatty, caller, Format::OpenAiChat, false).call().await;
    call.reply.is_ok_and(|reply| reply.status == 403)
}
