//! Loops that are spread over four Envoys, while healthy agents work on the same Envoys, a wire is cut, a sidecar crashes,
//! and the database crashes.
//!
//! Each round has one fault and three loops. One agent loops over all Envoys while the fault begins, lasts and ends. One
//! loops on a single Envoy during the fault, which must stop it at its sixth call, whatever the sidecar does. One loops over
//! all Envoys afterwards, and must be stopped by what the Envoys see together.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::stage::{is_refused, loop_until_refused};
use super::table::Outcome;
use crate::fault::Fault;
use crate::fleet::{Fleet, Pace};
use crate::mesh::SOON;
use crate::proc::{Postgres, wait_until};

const ENVOYS: usize = 4;
/// How many calls the first loop has made when the fault begins.
const BEFORE: usize = 3;
/// How long the fault lasts after one Envoy has stopped the second loop.
const AWAY: Duration = Duration::from_secs(5);
/// How long after the end of a fault everything works again at the latest.
const HEALED: Duration = Duration::from_secs(10);
/// The pause between two calls of a healthy agent.
const PAUSE: Duration = Duration::from_millis(200);
/// The healthy agents' ids begin with this.
const HEALTHY: &str = "fleet-healthy";

/// What fails in a round.
#[derive(Clone, Copy)]
enum Fails {
    Nothing,
    Wire,
    Sidecar,
    Database,
}

/// Lets this many healthy agents and loops work over four Envoys for a while. They report to one sidecar with SQLite.
pub async fn fleet(healthy: usize, lasts: Duration) -> Outcome {
    let fleet = Fleet::start(ENVOYS).await;
    let faults = [Fails::Nothing, Fails::Wire, Fails::Sidecar];
    let name = format!("loops over {ENVOYS} Envoys, {healthy} healthy agents for {} s", lasts.as_secs());
    Drill { fleet, database: None }.run(name, &faults, healthy, lasts).await
}

/// Like [`fleet`], but half of the Envoys report to one replica and half to another, both with one PostgreSQL. Returns
/// `None` if PostgreSQL is not installed.
pub async fn replicas(healthy: usize, lasts: Duration) -> Option<Outcome> {
    let database = Postgres::start(None)?;
    let url = database.database().await;
    let fleet = Fleet::over(ENVOYS, &[Some(&url), Some(&url)]).await;
    let faults = [Fails::Nothing, Fails::Wire, Fails::Sidecar, Fails::Database];
    let seconds = lasts.as_secs();
    let name = format!("loops over {ENVOYS} Envoys and 2 replicas, {healthy} healthy agents for {seconds} s");
    Some(Drill { fleet, database: Some(database) }.run(name, &faults, healthy, lasts).await)
}

struct Drill {
    fleet: Fleet,
    database: Option<Postgres>,
}

impl Drill {
    async fn run(mut self, fault: String, faults: &[Fails], healthy: usize, lasts: Duration) -> Outcome {
        let began = Instant::now();
        let working = self.fleet.healthy(HEALTHY, healthy, PAUSE).await;
        let mut outcome = Outcome { fault, all_answered: true, limit: Some(HEALED), ..Outcome::default() };
        let (mut slowest, mut loops) = (Duration::ZERO, Vec::new());
        // Every fault happens once, however short the time is.
        for (round, fails) in faults.iter().copied().cycle().enumerate() {
            if round >= faults.len() && began.elapsed() >= lasts {
                break;
            }
            let agents = ["through", "alone", "after"].map(|name| format!("fleet-{name}-{round}"));
            slowest = slowest.max(self.round(&agents, fails).await);
            loops.extend(agents);
        }
        let tally = working.end().await;
        self.fleet.settled().await;
        for agent in &loops {
            let remote = self.fleet.remote(0, 0);
            let is_inactive = remote.agent(agent).await["active"] == Value::Bool(false);
            let is_stopped = is_inactive && is_refused(self.fleet.callers(agent)[1].clone()).await;
            outcome.lost += usize::from(!is_stopped);
            outcome.doubled += remote.kills(agent, 1).await.len() - 1;
        }
        Outcome { loops: loops.len(), healthy: tally, recorded_after: Some(slowest), ..outcome }
    }

    /// Has one fault while these agents loop. Returns how long after the fault everything worked again.
    async fn round(&mut self, agents: &[String; 3], fails: Fails) -> Duration {
        let [through, alone, after] = agents;
        for agent in agents {
            self.fleet.remote(0, 0).switch_on(agent, &json!({})).await;
        }
        self.fleet.settled().await;
        let mut looping = self.fleet.looping(through, Pace::NoPause);
        while looping.calls < BEFORE {
            assert!(!looping.is_refused().await, "{through} is refused at call {}", looping.calls);
        }
        self.fail(fails).await;
        let looping = tokio::spawn(async move { looping.until_refused().await });
        let answered = loop_until_refused(self.fleet.callers(alone)[0].clone()).await;
        assert_eq!(answered, Some(5), "{alone} is killed at its sixth call");
        tokio::time::sleep(AWAY).await;
        self.heal(fails).await;

        let (healed, now) = (Instant::now(), SystemTime::now());
        looping.await.expect("the loop is stopped");
        self.wait_until_heard(now).await;
        for agent in [through, alone] {
            self.wait_until_recorded(agent).await;
        }
        let took = healed.elapsed();

        self.fleet.loop_until_refused(after, Pace::NoPause).await;
        let kill = self.fleet.remote(0, 0).kills(after, 1).await.remove(0);
        let is_spread = kill["envoys"].as_array().is_some_and(|envoys| envoys.len() >= 2);
        assert!(is_spread, "{after} is stopped by what several Envoys see together: {kill}");
        took
    }

    async fn fail(&mut self, fails: Fails) {
        match (fails, &mut self.database) {
            (Fails::Nothing, _) => {}
            (Fails::Wire, _) => self.fleet.proxies[0].set(Fault::Partition).await,
            (Fails::Sidecar, _) => self.fleet.sidecars[0].kill(),
            (Fails::Database, database) => database.as_mut().expect("there is a database").crash(),
        }
    }

    async fn heal(&mut self, fails: Fails) {
        match (fails, &mut self.database) {
            (Fails::Nothing, _) => {}
            (Fails::Wire, _) => self.fleet.proxies[0].set(Fault::Pass).await,
            (Fails::Sidecar, _) => self.fleet.sidecars[0].resume().await,
            (Fails::Database, database) => database.as_mut().expect("there is a database").resume(),
        }
    }

    /// Waits until the kill of an agent is recorded. The sidecar may answer with an error until it is connected again.
    async fn wait_until_recorded(&self, agent: &str) {
        let path = format!("/v1/events?agent_id={agent}&event_type=kill_switch");
        wait_until("the kill is recorded", SOON, || async {
            let (_, page) = self.fleet.remote(0, 0).api("GET", &path, None).await;
            page["events"].as_array().is_some_and(|kills| !kills.is_empty())
        })
        .await;
    }

    /// Waits until every replica has merged a call of each Envoy that was reported since then.
    async fn wait_until_heard(&self, since: SystemTime) {
        let path = format!("/v1/agents/{HEALTHY}-0/fleet");
        wait_until("every replica hears of the calls of every Envoy", SOON, || async {
            for sidecar in 0..self.fleet.sidecars.len() {
                let (_, seen) = self.fleet.remote(0, sidecar).api("GET", &path, None).await;
                let last_calls = seen["envoys"].as_array().into_iter().flatten();
                let is_new = |envoy: &&Value| {
                    let last = envoy["last_call"].as_str().and_then(|text| humantime::parse_rfc3339(text).ok());
                    last.is_some_and(|last| last > since)
                };
                if last_calls.filter(is_new).count() < ENVOYS {
                    return false;
                }
            }
            true
        })
        .await;
    }
}
