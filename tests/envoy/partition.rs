//! A silent partition: bytes between Envoy and its sidecar are lost, and no connection is closed. When it is over, changes
//! arrive again within seconds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::EnvoyConfig;
use lab::mesh::{Mesh, MeshOptions, SOON};
use lab::proc::{free_address, wait_until};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

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
    let (address, proxy) = (free_address(), Arc::new(AtomicBool::new(false)));
    let mesh = Mesh::with(MeshOptions {
        sidecar_listen: Some(free_address()),
        envoy: Box::new({
            let is_silent = Arc::clone(&proxy);
            move |config: EnvoyConfig| {
                let sidecar = config.sidecar.unwrap();
                tokio::spawn(serve(address, sidecar, is_silent));
                EnvoyConfig { sidecar: Some(address), ..config }
            }
        }),
        ..MeshOptions::default()
    })
    .await;
    mesh.enable("bot", json!({"kill_switch_enabled": false})).await;
    assert_eq!(chatting(&mesh.caller("bot"), 1).await, [200]);

    proxy.store(true, Ordering::SeqCst);
    mesh.deactivate("bot").await;
    tokio::time::sleep(lasts).await;
    assert_eq!(chatting(&mesh.caller("bot"), 1).await, [200], "traffic passes, and the stop has not arrived");
    proxy.store(false, Ordering::SeqCst);
    let healed = Instant::now();
    wait_until("the agent is refused", SOON, || async { chatting(&mesh.caller("bot"), 1).await == [403] }).await;
    let after = healed.elapsed();
    eprintln!("partition of {lasts:?}: the stop arrived {after:?} after its end; promised: {PROMISED:?}");
    assert!(after < AT_MOST, "{after:?}");
}

/// Passes bytes on between Envoy and the sidecar. While it is silent, the bytes that arrive are lost and connections stay
/// open.
async fn serve(listen: SocketAddr, sidecar: SocketAddr, is_silent: Arc<AtomicBool>) {
    let listener = TcpListener::bind(listen).await.unwrap();
    while let Ok((envoy, _)) = listener.accept().await {
        let is_silent = Arc::clone(&is_silent);
        tokio::spawn(async move {
            let Ok(sidecar) = TcpStream::connect(sidecar).await else { return };
            let ((from_envoy, to_envoy), (from_sidecar, to_sidecar)) = (envoy.into_split(), sidecar.into_split());
            tokio::join!(copy(from_envoy, to_sidecar, Arc::clone(&is_silent)), copy(from_sidecar, to_envoy, is_silent),);
        });
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_silent: Arc<AtomicBool>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if !is_silent.load(Ordering::SeqCst) && to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
