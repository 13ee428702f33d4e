//! A silent partition: bytes between Envoy and its sidecar are lost, and no connection is closed. When it is over, changes
//! arrive again within seconds.

use std::time::{Duration, Instant};

use lab::EnvoyConfig;
use lab::fault::{Fault, FaultProxy};
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{free_address, wait_until};
use serde_json::json;

use crate::support::{chatting, run};

/// The time that is documented. The test prints what it measured.
const PROMISED: Duration = Duration::from_secs(10);
/// The time that is asserted, which has some room for a busy machine.
const AT_MOST: Duration = Duration::from_secs(20);

#[test]
fn a_manual_stop_arrives_within_seconds_after_a_short_partition() {
    // Shorter than a poll, so that the answer to the open poll is what is lost.
    run(stop_during_partition(Duration::from_millis(500)));
}

#[test]
fn a_manual_stop_arrives_within_seconds_after_a_long_partition() {
    // Long enough for several attempts that fail.
    run(stop_during_partition(Duration::from_secs(15)));
}

async fn stop_during_partition(lasts: Duration) {
    let sidecar = free_address();
    let proxy = FaultProxy::start(sidecar).await;
    let address = proxy.address();
    let mesh = Mesh::with(MeshOptions {
        sidecar_listen: Some(sidecar),
        envoy: Box::new(move |config| EnvoyConfig { sidecar: Some(address), ..config }),
        ..MeshOptions::default()
    })
    .await;
    mesh.enable("bot", json!({"kill_switch_enabled": false})).await;
    assert_eq!(chatting(&mesh.caller("bot"), 1).await, [200]);

    proxy.set(Fault::Partition).await;
    mesh.deactivate("bot").await;
    tokio::time::sleep(lasts).await;
    assert_eq!(chatting(&mesh.caller("bot"), 1).await, [200], "traffic passes, and the stop has not arrived");
    proxy.set(Fault::Pass).await;
    let healed = Instant::now();
    wait_until("the agent is refused", SOON, || async { chatting(&mesh.caller("bot"), 1).await == [403] }).await;
    let after = healed.elapsed();
    eprintln!("partition of {lasts:?}: the stop arrived {after:?} after its end; promised: {PROMISED:?}");
    assert!(after < AT_MOST, "{after:?}");
}
