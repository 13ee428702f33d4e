//! Envoy replaces its listener, and with it every worker's virtual machine, under load and while kill reports wait.

use std::time::Duration;

use super::stage::{Stage, loop_until_refused, names};
use super::table::Outcome;
use crate::fault::Fault;
use crate::mesh::SOON;
use crate::proc::wait_until;

const ROUNDS: u64 = 2;
/// More than Envoy's workers keep in their own memory.
const LOOPS: usize = 100;

/// Replaces the listener while the sidecar cannot be reached and reports wait.
pub async fn listener_updates() -> Outcome {
    let stage = Stage::start().await;
    let traffic = stage.healthy("listener").await;
    let mut loops = Vec::new();
    let mut slowest = Some(Duration::ZERO);
    for round in 0..ROUNDS {
        let these = names(&format!("listener-loop-{round}"), LOOPS);
        stage.know(&these, true).await;
        stage.proxy.set(Fault::Refuse).await;
        for agent in &these {
            let answered = loop_until_refused(stage.mesh.caller(agent)).await;
            assert_eq!(answered, Some(5), "{agent} is killed at its sixth call");
        }
        wait_until("reports wait", SOON, || async { stage.waiting().await > 0 }).await;
        stage.update_listener(101 + round).await;
        traffic.goes_on(20).await;
        stage.proxy.set(Fault::Pass).await;
        loops.extend(these);
        slowest = slowest.zip(stage.recorded(&loops).await).map(|(one, other)| one.max(other));
    }
    let healthy = traffic.end().await;
    let outcome = stage.outcome(&format!("listener update, {ROUNDS} times, reports waiting"), &loops, healthy).await;
    // A listener that is replaced closes its connections, and a call may be on its way on one of them.
    Outcome { recorded_after: slowest, all_answered: false, ..outcome }
}
