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

/// The process that is killed.
#[derive(Clone, Copy)]
enum Victim {
    Sidecar,
    Envoy,
}

/// Kills the sidecar while agents are killed, and starts it again when all of them are.
pub async fn sidecar_crashes() -> Outcome {
    crashes(Victim::Sidecar, "the sidecar").await
}

/// Kills Envoy while agents are killed, and starts it again at once. Reports that it had not sent are gone with it, so the
/// agents loop on and are killed again.
pub async fn envoy_crashes() -> Outcome {
    let outcome = crashes(Victim::Envoy, "Envoy").await;
    Outcome { all_answered: false, ..outcome }
}

async fn crashes(victim: Victim, name: &str) -> Outcome {
    let mut stage = Stage::start().await;
    let traffic = stage.healthy("healthy").await;
    let mut loops = Vec::new();
    let mut slowest = Some(Duration::ZERO);
    for round in 0..ROUNDS {
        let these = names(&format!("loop-{round}"), LOOPS);
        stage.know(&these, true).await;
        let looping = Looping::start(&stage, &these).await;
        match victim {
            Victim::Sidecar => {
                stage.mesh.sidecar.kill();
                looping.end().await;
                stage.mesh.sidecar.resume().await;
            }
            Victim::Envoy => {
                stage.crash_envoy().await;
                looping.end().await;
                stage.mesh.settled().await;
                Looping::start(&stage, &these).await.end().await;
            }
        }
        loops.extend(these);
        slowest = slowest.zip(stage.recorded(&loops).await).map(|(one, other)| one.max(other));
    }
    let healthy = traffic.end().await;
    let outcome = stage.outcome(&format!("kill -9 of {name}, {ROUNDS} times"), &loops, healthy).await;
    Outcome { recorded_after: slowest, ..outcome }
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

    /// Waits until all of them have been refused.
    async fn end(self) {
        self.0.join_all().await;
    }
}
