//! A silent partition: bytes between Envoy and its sidecar are lost, and no connection is closed. When it is over, changes
//! arrive again within the promised time. The tests of the link in src/link/tests/partition.rs try partitions that begin and
//! end at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lab::EnvoyConfig;
use lab::fault::{Fault, FaultProxy};
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{free_address, wait_until};
use serde_json::json;

use crate::support::{SIXTH_REFUSED, chatting, looping, run};

/// The time that is documented. The test prints what it measured.
const PROMISED: Duration = Duration::from_secs(10);
/// How often a heart beats. The filter ticks as often.
const BEAT: Duration = Duration::from_millis(50);

/// Counts time in beats. On a busy machine a beat takes longer, as everything does that Envoy and the sidecar do, so the
/// promised time is asserted in beats.
fn heart() -> Arc<AtomicU32> {
    let beats = Arc::new(AtomicU32::new(0));
    let beating = Arc::downgrade(&beats);
    tokio::spawn(async move {
        while let Some(beats) = beating.upgrade() {
            beats.fetch_add(1, Ordering::Relaxed);
            drop(beats);
            tokio::time::sleep(BEAT).await;
        }
    });
    beats
}

#[test]
fn a_manual_stop_arrives_within_ten_seconds_after_a_short_partition() {
    // Shorter than a poll, so that the answer to the open poll is what is lost.
    run(stop_during_partition(Duration::from_millis(500)));
}

#[test]
fn a_manual_stop_arrives_within_ten_seconds_after_a_long_partition() {
    // Long enough for several attempts that fail.
    run(stop_during_partition(Duration::from_secs(15)));
}

/// As after a firewall has forgotten its connections: those that were open swallow everything, and new ones work.
#[test]
fn a_kill_is_recorded_within_ten_seconds_although_all_open_connections_died_unnoticed() {
    run(async {
        let (mesh, proxy) = mesh_behind_a_proxy().await;
        for round in 0..3 {
            let agent = format!("bot-{round}");
            mesh.enable(&agent, json!({})).await;
            // So many connections are open at least: one for the poll, and one for what was sent last.
            let struck = proxy.struck();
            proxy.set(Fault::Dead).await;
            wait_until("connections have died", SOON, || async { proxy.struck() >= struck + 2 }).await;
            assert_eq!(looping(&mesh.caller(&agent), 6).await, SIXTH_REFUSED);
            let (killed, beats) = (Instant::now(), heart());
            mesh.kills(&agent, 1).await;
            let (after, beats) = (killed.elapsed(), beats.load(Ordering::Relaxed));
            eprintln!("dead connections: the kill was recorded after {after:?} and {beats} beats");
            assert!(BEAT * beats < PROMISED, "{beats} beats of {BEAT:?}, {after:?}");
            proxy.set(Fault::Pass).await;
        }
    });
}

/// Returns a mesh whose Envoy reaches the sidecar through a proxy that can fail.
async fn mesh_behind_a_proxy() -> (Mesh, FaultProxy) {
    let sidecar = free_address();
    let proxy = FaultProxy::start(sidecar).await;
    let address = proxy.address();
    let mesh = Mesh::with(MeshOptions {
        sidecar_listen: Some(sidecar),
        envoy: Box::new(move |config| EnvoyConfig { sidecar: Some(address), ..config }),
        ..MeshOptions::default()
    })
    .await;
    (mesh, proxy)
}

async fn stop_during_partition(lasts: Duration) {
    let (mesh, proxy) = mesh_behind_a_proxy().await;
    mesh.enable("bot", json!({"kill_switch_enabled": false})).await;
    assert_eq!(chatting(&mesh.caller("bot"), 1).await, [200]);

    proxy.set(Fault::Partition).await;
    mesh.deactivate("bot").await;
    tokio::time::sleep(lasts).await;
    assert_eq!(chatting(&mesh.caller("bot"), 1).await, [200], "traffic passes, and the stop has not arrived");
    proxy.set(Fault::Pass).await;
    let (healed, beats) = (Instant::now(), heart());
    wait_until("the agent is refused", SOON, || async { chatting(&mesh.caller("bot"), 1).await == [403] }).await;
    let (after, beats) = (healed.elapsed(), beats.load(Ordering::Relaxed));
    eprintln!(
        "partition of {lasts:?}: the stop arrived {after:?} and {beats} beats after its end; promised: {PROMISED:?}"
    );
    assert!(BEAT * beats < PROMISED, "{beats} beats of {BEAT:?}, {after:?}");
}
