//! The link between Envoy and the sidecar fails while agents loop.

use std::time::{Duration, Instant};

use super::stage::{Stage, is_refused, loop_until_refused, names};
use super::table::Outcome;
use crate::fault::Fault;
use crate::mesh::SOON;
use crate::proc::wait_until;

const LOOPS: usize = 3;

/// Switches to `fault` while the link is in use, lets agents loop and a person stop an agent, and switches back after the
/// fault has lasted this much longer.
pub async fn faulty_link(stage: &Stage, fault: Fault, lasts: Duration) -> Outcome {
    let (loops, stopped) = (names(&format!("{fault}-loop"), LOOPS), format!("{fault}-stopped"));
    stage.know(&loops, true).await;
    stage.know(std::slice::from_ref(&stopped), false).await;
    let traffic = stage.healthy(&fault.to_string()).await;

    let struck = stage.proxy.struck();
    stage.proxy.set(fault).await;
    wait_until("the fault strikes", SOON, || async { stage.proxy.struck() > struck }).await;
    for agent in &loops {
        let answered = loop_until_refused(stage.mesh.caller(agent)).await;
        assert_eq!(answered, Some(5), "{agent} is killed at its sixth call");
    }
    stage.mesh.deactivate(&stopped).await;
    wait_until("a report waits or has arrived", SOON, || async {
        stage.waiting().await > 0 || stage.kills().await.keys().any(|agent| loops.contains(agent))
    })
    .await;
    tokio::time::sleep(lasts).await;
    traffic.goes_on(8).await;
    if lets_nothing_through(fault) {
        wait_until("a report waits", SOON, || async { stage.waiting().await > 0 }).await;
        assert!(!is_refused(stage.mesh.caller(&stopped)).await, "{fault}: the stop cannot have arrived");
    }

    stage.proxy.set(Fault::Pass).await;
    let (recorded_after, stop_after) = tokio::join!(stage.recorded(&loops), refused(stage, &stopped));
    traffic.goes_on(8).await;
    let healthy = traffic.end().await;
    let outcome = stage.outcome(&format!("link: {fault}"), &loops, healthy).await;
    Outcome { recorded_after, stop_after, ..outcome }
}

/// Whether no answer of the sidecar can arrive. The others may be late, or be read in spite of the fault.
fn lets_nothing_through(fault: Fault) -> bool {
    matches!(fault, Fault::Refuse | Fault::Hang | Fault::Reset | Fault::Truncate | Fault::Partition)
}

/// Waits until an agent is refused, and returns how long that took.
async fn refused(stage: &Stage, agent: &str) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < SOON {
        if is_refused(stage.mesh.caller(agent)).await {
            return Some(began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    None
}
