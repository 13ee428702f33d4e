//! The sidecar or Envoy is killed (SIGKILL) in the middle of kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::stage::{Stage, loop_until_refused, names};
use super::table::Outcome;
use crate::mesh::SOON;
use crate::proc::wait_until;

const ROUNDS: usize = 3;
/// How many agents loop at once in each round.
const LOOPS: usize = 10;
/// How many of them have been killed when the process is.
const BEFORE: usize = 3;

/// Kills the sidecar while agents are killed, and starts it again when all of them are.
pub async fn sidecar_crashes() -> Outcome {
    let mut stage = Stage::start().await;
    let traffic = stage.healthy("sidecar").await;
    let mut loops = Vec::new();
    let mut slowest = Some(Duration::ZERO);
    for round in 0..ROUNDS {
        let these = names(&format!("sidecar-loop-{round}"), LOOPS);
        stage.know(&these, true).await;
        let mut looping = Looping::start(&stage, &these).await;
        stage.mesh.sidecar.kill();
        looping.end().await;
        stage.mesh.sidecar.resume().await;
        loops.extend(these);
        slowest = slowest.zip(stage.recorded(&loops).await).map(|(one, other)| one.max(other));
    }
    let healthy = traffic.end().await;
    let outcome = stage.outcome(&format!("kill -9 of the sidecar, {ROUNDS} times"), &loops, healthy).await;
    Outcome { recorded_after: slowest, ..outcome }
}

/// Kills Envoy while agents are killed, and starts it again at once. Reports that it had not sent are gone with it, so the
/// agents loop on and are killed again.
pub async fn envoy_crashes() -> Outcome {
    let mut stage = Stage::start().await;
    let traffic = stage.healthy("envoy").await;
    let mut loops = Vec::new();
    let mut slowest = Some(Duration::ZERO);
    for round in 0..ROUNDS {
        let these = names(&format!("envoy-loop-{round}"), LOOPS);
        stage.know(&these, true).await;
        let mut looping = Looping::start(&stage, &these).await;
        stage.crash_envoy().await;
        looping.end().await;
        stage.mesh.settled().await;
        loop_on(&stage, &these).await;
        loops.extend(these);
        slowest = slowest.zip(stage.recorded(&loops).await).map(|(one, other)| one.max(other));
    }
    let healthy = traffic.end().await;
    let outcome = stage.outcome(&format!("kill -9 of Envoy, {ROUNDS} times"), &loops, healthy).await;
    Outcome { recorded_after: slowest, all_answered: false, ..outcome }
}

/// Lets the agents loop again that were refused before the crash.
async fn loop_on(stage: &Stage, agents: &[String]) {
    let mut looping = JoinSet::new();
    for agent in agents {
        looping.spawn(loop_until_refused(stage.mesh.caller(agent)));
    }
    looping.join_all().await;
}

/// Agents that loop until they are refused.
struct Looping(JoinSet<Option<usize>>);

impl Looping {
    /// Starts them, and waits until some have been refused.
    async fn start(stage: &Stage, agents: &[String]) -> Looping {
        let refused = Arc::new(AtomicUsize::new(0));
        let mut looping = JoinSet::new();
        for agent in agents {
            let (caller, refused) = (stage.mesh.caller(agent), Arc::clone(&refused));
            looping.spawn(async move {
                let answered = loop_until_refused(caller).await;
                refused.fetch_add(1, Ordering::SeqCst);
                answered
            });
        }
        wait_until("agents are killed", SOON, || async { refused.load(Ordering::SeqCst) >= BEFORE }).await;
        Looping(looping)
    }

    async fn end(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}
