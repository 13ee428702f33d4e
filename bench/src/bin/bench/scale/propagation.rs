//! How long after the API's answer a change is in force on every worker.
//!
//! Each worker has connections on which an agent calls about every millisecond. The time ends when the last connection has
//! received an answer that shows the change, so it includes the call itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The connections, which Envoy distributes evenly over its workers.
const CONNECTIONS: usize = 2 * WORKERS as usize;
/// The number of the agent that changes.
const AGENT: usize = 50_000;

/// When a connection first saw a status.
struct Seen {
    status: u16,
    at: Instant,
}

/// Repeatedly deactivates and activates an agent while it calls.
pub async fn measure(options: &Options, sidecar: &Sidecar, envoy: &Envoy) -> Vec<Row> {
    let changes = if options.quick { 20 } else { 100 };
    let remote = rig::remote(sidecar);
    let agent = agents::name(AGENT);
    remote.enable(&agent, serde_json::json!({"kill_switch_enabled": false})).await;
    let target = cost::target(envoy, &agent);
    let before = workers(envoy).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let done = Arc::new(AtomicBool::new(false));
    let callers = spawn(&target, &tell, &done);
    wait_for(&mut told, 200).await;
    let shared = workers(envoy).await.iter().zip(&before).all(|(after, before)| after > before);
    assert!(shared, "every worker has a connection");
    let mut times = Vec::new();
    for change in 0..changes {
        let status = if change % 2 == 0 { 403 } else { 200 };
        if status == 403 {
            remote.deactivate(&agent).await;
        } else {
            remote.activate(&agent).await;
        }
        let answered = Instant::now();
        let last = wait_for(&mut told, status).await;
        times.push(last.saturating_duration_since(answered).as_secs_f64() * 1000.0);
    }
    done.store(true, Ordering::Relaxed);
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

/// Returns how many connections each worker has taken.
async fn workers(envoy: &Envoy) -> Vec<u64> {
    let stats = envoy.stats().await;
    let name = |worker| format!("listener.{}.worker_{worker}.downstream_cx_total", Listener::Ours.name());
    (0..WORKERS).map(|worker| stats.get(&name(worker)).copied().unwrap_or(0)).collect()
}

/// Starts callers on threads of their own, so that calls to the API do not delay them.
fn spawn(
    target: &Target,
    tell: &mpsc::UnboundedSender<Seen>,
    done: &Arc<AtomicBool>,
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

/// Calls until `done`, and reports each status that differs from the one before.
async fn call(target: Target, tell: mpsc::UnboundedSender<Seen>, done: Arc<AtomicBool>) {
    let body = Body { shape: Shape::Message, kilobytes: 1 }.text(1);
    let mut connection = Connection::new(target.address);
    let mut status = 0;
    while !done.load(Ordering::Relaxed) {
        let reply = connection.call(&target, body.as_bytes()).await;
        if reply.status != status {
            status = reply.status;
            let _ = tell.send(Seen { status, at: Instant::now() });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until every connection has seen a status, and returns the time at which the last one did.
async fn wait_for(told: &mut mpsc::UnboundedReceiver<Seen>, status: u16) -> Instant {
    const DEADLINE: Duration = Duration::from_secs(20);
    let mut last = Instant::now();
    for number in 0..CONNECTIONS {
        let seen = tokio::time::timeout(DEADLINE, told.recv()).await;
        let seen =
            seen.ok().flatten().unwrap_or_else(|| panic!("only {number} of {CONNECTIONS} connections saw {status}"));
        assert_eq!(seen.status, status, "the next status that a connection sees");
        last = if number == 0 { seen.at } else { last.max(seen.at) };
    }
    last
}
