//! Loops that are spread over four Envoys, while healthy agents work on the same Envoys, the wires to the sidecar are cut, and
//! the sidecar crashes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::{is_refused, loop_until_refused};
use super::table::Outcome;
use super::traffic::Tally;
use crate::fault::Fault;
use crate::fleet::{Fleet, Pace};

const ENVOYS: usize = 4;
/// How long the wires are cut, and how long the sidecar is away.
const AWAY: Duration = Duration::from_secs(5);

/// What happens between two loops.
#[derive(Clone, Copy)]
enum Fails {
    Nothing,
    Wires,
    Sidecar,
}

/// Lets this many healthy agents work for a while. Until that is over, agents loop over all Envoys, one after the other.
pub async fn fleet(healthy: usize, lasts: Duration) -> Outcome {
    let mut fleet = Fleet::start(ENVOYS).await;
    let (began, pause) = (Instant::now(), Duration::from_millis(200));
    let working = fleet.healthy("fleet-healthy", healthy, pause, lasts).await;
    let mut outcome = Outcome {
        fault: format!("loops over {ENVOYS} Envoys, {healthy} healthy agents for {} s", lasts.as_secs()),
        all_answered: true,
        ..Outcome::default()
    };
    let mut slowest = Duration::ZERO;
    let mut loops = Vec::new();
    for fails in [Fails::Nothing, Fails::Wires, Fails::Sidecar].into_iter().cycle() {
        if !loops.is_empty() && began.elapsed() >= lasts {
            break;
        }
        let (alone, spread) = (format!("fleet-alone-{}", loops.len()), format!("fleet-loop-{}", loops.len()));
        fleet.enable(&alone, json!({})).await;
        fleet.enable(&spread, json!({})).await;
        let callers = fleet.callers(&alone);
        fail(&mut fleet, fails).await;
        // What one Envoy sees alone, it stops by itself.
        let answered = loop_until_refused(callers[0].clone()).await;
        assert_eq!(answered, Some(5), "{alone} is killed at its sixth call");
        tokio::time::sleep(AWAY).await;
        heal(&mut fleet, fails).await;
        let healed = Instant::now();
        fleet.loop_until_refused(&spread, Pace::NoPause).await;
        slowest = slowest.max(healed.elapsed());
        loops.extend([alone, spread]);
    }
    for agent in &loops {
        let kills = fleet.remote(0, 0).kills(agent, 1).await.len();
        let state = fleet.remote(0, 0).agent(agent).await;
        fleet.settled().await;
        let is_stopped = state["active"] == Value::Bool(false) && is_refused(fleet.callers(agent)[1].clone()).await;
        outcome.lost += usize::from(!is_stopped);
        outcome.doubled += kills.saturating_sub(1);
    }
    let mut tally = Tally::default();
    for agent in working {
        tally.add(agent.await.expect("an agent does not panic"));
    }
    Outcome { loops: loops.len(), healthy: tally, recorded_after: Some(slowest), ..outcome }
}

async fn fail(fleet: &mut Fleet, fails: Fails) {
    match fails {
        Fails::Nothing => {}
        Fails::Wires => fleet.proxies[0].set(Fault::Partition).await,
        Fails::Sidecar => fleet.sidecars[0].kill(),
    }
}

async fn heal(fleet: &mut Fleet, fails: Fails) {
    match fails {
        Fails::Nothing => {}
        Fails::Wires => fleet.proxies[0].set(Fault::Pass).await,
        Fails::Sidecar => fleet.sidecars[0].resume().await,
    }
}
