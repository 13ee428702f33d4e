//! However many kills wait for the sidecar, a listener update loses none of them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use lab::EnvoyConfig;
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{free_address, wait_until};
use serde_json::{Value, json};

use crate::support::{SIXTH_REFUSED, chatting, counter, looping, run};

const KILLS: usize = 100;

#[test]
fn a_hundred_kills_that_wait_for_the_sidecar_survive_a_listener_update() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("listeners.json");
        let (mut mesh, config) = mesh_with_listeners_in(&file).await;
        for number in 0..KILLS {
            let (status, _) = mesh.api("PUT", &path(number), Some(json!({"kill_switch_enabled": true}))).await;
            assert!((200..300).contains(&status), "{status}");
        }
        mesh.settled().await;

        mesh.sidecar.stop().await;
        for number in 0..KILLS {
            assert_eq!(looping(&mesh.caller(&agent(number)), 6).await, SIXTH_REFUSED, "{number}");
        }
        wait_until("every report waits", SOON, || async { counter(&mesh, "outbox_depth").await == KILLS as u64 }).await;
        update_listener(&mesh, config, &file).await;
        assert_eq!(chatting(&mesh.caller(&agent(0)), 1).await, [403], "a killed agent stays killed");

        mesh.sidecar.resume().await;
        wait_until("every kill is recorded", SOON, || async { kills(&mesh).await.len() >= KILLS }).await;
        wait_until("no report waits", SOON, || async { counter(&mesh, "outbox_depth").await == 0 }).await;
        let mut recorded = kills(&mesh).await;
        recorded.sort();
        let mut expected: Vec<String> = (0..KILLS).map(agent).collect();
        expected.sort();
        assert_eq!(recorded, expected, "each of them once");
    });
}

fn agent(number: usize) -> String {
    format!("agent-{number}")
}

fn path(number: usize) -> String {
    format!("/v1/agents/{}", agent(number))
}

/// Returns the agents of all kills that the sidecar has recorded.
async fn kills(mesh: &Mesh) -> Vec<String> {
    let (_, page) = mesh.api("GET", "/v1/events?event_type=kill_switch&limit=1000", None).await;
    let events = page["events"].as_array().cloned().unwrap_or_default();
    events.iter().map(|event| event["agent_id"].as_str().unwrap().to_owned()).collect()
}

/// Starts a mesh whose Envoy reads its listener from a file, and returns it with its configuration.
async fn mesh_with_listeners_in(file: &Path) -> (Mesh, EnvoyConfig) {
    let kept = Arc::new(Mutex::new(None));
    let (keep, file) = (Arc::clone(&kept), file.to_owned());
    let envoy = move |config: EnvoyConfig| {
        // The address must stay the same, and port 0 would not.
        let config = EnvoyConfig { listeners_file: Some(file.clone()), listen: free_address(), ..config };
        std::fs::write(&file, config.listeners().to_string()).unwrap();
        *keep.lock().unwrap() = Some(config.clone());
        config
    };
    let mesh = Mesh::with(MeshOptions { envoy: Box::new(envoy), ..MeshOptions::default() }).await;
    let config = kept.lock().unwrap().take().unwrap();
    (mesh, config)
}

/// Changes the configuration of the filter, and waits until the old listener and its workers' memory are gone.
async fn update_listener(mesh: &Mesh, mut config: EnvoyConfig, file: &Path) {
    if let Some(filter) = &mut config.filter {
        filter.config["observe_interval_ms"] = Value::from(200);
    }
    // Envoy watches for files that are moved to this path.
    let new = file.with_extension("new");
    std::fs::write(&new, config.listeners().to_string()).unwrap();
    std::fs::rename(&new, file).unwrap();
    wait_until("the listener is replaced", SOON, || async {
        let stat = async |name: &str| mesh.envoy.stat(&format!("listener_manager.{name}")).await;
        // Envoy replaces only the filter chain if nothing else has changed.
        let draining = stat("total_listeners_draining").await + stat("total_filter_chains_draining").await;
        stat("listener_modified").await == 1 && draining == 0
    })
    .await;
}
