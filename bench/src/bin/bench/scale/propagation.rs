//! How long after the API's answer a change is in force on every worker.
//!
//! Each worker has connections on which an agent calls every millisecond or so. What is taken is the time until the slowest of
//! them has got an answer that shows the change: the call itself is part of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bench::body::{Body, Shape};
use bench::stats::percentile;
use lab::proc::{Envoy, Sidecar};
use tokio::sync::mpsc;

use super::{WORKERS, agents, cost};
use crate::options::Options;
use crate::rig::client::{Connection, Target};
use crate::rig::{self, Listener};
use crate::row::{Goal, Row, Unit, Value};

/// Connections, which Envoy shares out evenly.
const CONNECTIONS: usize = 2 * WORKERS as usize;
/// The agent that changes.
const AGENT: usize = 50_000;

/// When a connection first saw a status.
struct Seen {
    status: u16,
    at: Instant,
}

/// Deactivates and activates an agent again and again while it calls.
pub async fn measure(options: &Options, sidecar: &Sidecar, envoy: &Envoy) -> Vec<Row> {
    let changes = if options.quick { 20 } else { 100 };
    let remote = rig::remote(sidecar);
    let agent = agents::name(AGENT);
    remote.enable(&agent, serde_json::json!({"kill_switch_enabled": false})).await;
    let target = cost::target(envoy, &agent);
    let before = workers(envoy).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let done = Arc::new(AtomicU16::new(0));
    let callers = spawn(&target, &tell, &done);
    wait_for(&mut told, 200).await;
    let shared = workers(envoy).await.iter().zip(&before).all(|(after, before)| after > before);
    assert!(shared, "every worker has a connection");
    let mut times = Vec::new();
    for change in 0..changes {
        let status = if change % 2 == 0 { 403 } else { 200 };
        match status {
            403 => remote.deactivate(&agent).await,
            _ => remote.activate(&agent).await,
        }
        let answered = Instant::now();
        let last = wait_for(&mut told, status).await;
        times.push(last.saturating_duration_since(answered).as_secs_f64() * 1000.0);
    }
    done.store(1, Ordering::Relaxed);
    for caller in callers {
        caller.join().expect("a caller does not panic");
    }
    let [p50, p99] = [50.0, 99.0].map(|percent| Value(percentile(&times, percent), Unit::Milliseconds));
    let measured = format!("{changes} changes, {WORKERS} workers, after the API's answer");
    vec![
        Row::new("a change in force on every worker, p50", measured.clone(), p50, Goal::Below(50.0)),
        Row::new("a change in force on every worker, p99", measured, p99, Goal::Below(250.0)),
    ]
}

/// Connections that each worker has taken.
async fn workers(envoy: &Envoy) -> Vec<u64> {
    let stats = envoy.stats().await;
    let name = |worker| format!("listener.{}.worker_{worker}.downstream_cx_total", Listener::Ours.name());
    (0..WORKERS).map(|worker| stats.get(&name(worker)).copied().unwrap_or(0)).collect()
}

/// Callers on threads of their own: asking the API must not make them wait.
fn spawn(
    target: &Target,
    tell: &mpsc::UnboundedSender<Seen>,
    done: &Arc<AtomicU16>,
) -> Vec<std::thread::JoinHandle<()>> {
    (0..CONNECTIONS)
        .map(|_| {
            let (target, tell, done) = (target.clone(), tell.clone(), Arc::clone(done));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(call(target, tell, done));
            })
        })
        .collect()
}

/// Calls until told to stop, and tells of each status that differs from the one before.
async fn call(target: Target, tell: mpsc::UnboundedSender<Seen>, done: Arc<AtomicU16>) {
    let body = Body { shape: Shape::Message, kilobytes: 1 }.text(1);
    let address: SocketAddr = target.address;
    let mut connection = Connection::new(address);
    let mut status = 0;
    while done.load(Ordering::Relaxed) == 0 {
        let reply = connection.call(&target, body.as_bytes()).await;
        if reply.status != status {
            status = reply.status;
            let _ = tell.send(Seen { status, at: Instant::now() });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until every connection has seen a status; when the last one did.
async fn wait_for(told: &mut mpsc::UnboundedReceiver<Seen>, status: u16) -> Instant {
    const DEADLINE: Duration = Duration::from_secs(20);
    let mut last = Instant::now();
    for number in 0..CONNECTIONS {
        let seen = tokio::time::timeout(DEADLINE, told.recv()).await;
        let seen = seen.ok().flatten().unwrap_or_else(|| panic!("{number} of {CONNECTIONS} have seen {status}"));
        assert_eq!(seen.status, status, "what a connection sees next");
        last = if number == 0 { seen.at } else { last.max(seen.at) };
    }
    last
}
