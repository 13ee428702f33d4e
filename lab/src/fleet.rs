//! Several Envoys with the filter, over one or several sidecars, with one mock LLM behind them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::agent::{Agent, Kind};
use crate::chat::Caller;
use crate::drill::Tally;
use crate::fault::FaultProxy;
use crate::format::Format;
use crate::llm::MockLlm;
use crate::mesh::{ENVIRONMENT, OPERATOR, Remote, SOON, envoy_config};
use crate::proc::{Envoy, Sidecar, SidecarOptions, wait_until, wasm_module};
use crate::{EnvoyConfig, envoy_yaml};

/// How long a call may take to be answered or refused once an agent is stopped.
const LOOP_MAX: Duration = Duration::from_secs(60);

/// How long the model takes for each answer to an agent that makes no pauses. An Envoy that sees a quarter of its calls needs
/// 21 of them, and so almost four seconds after the sixth, to recognise the loop alone.
const MODEL_TIME: Duration = Duration::from_millis(250);

/// What a looping agent does between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It waits until every sidecar has merged the call and its answer, and every Envoy has heard what came of it.
    UntilMerged,
    /// It makes the next call as soon as it has the answer.
    NoPause,
}

/// Running Envoys and sidecars. Their processes end when it is dropped.
pub struct Fleet {
    pub llm: MockLlm,
    pub sidecars: Vec<Sidecar>,
    /// Between the Envoys and each sidecar.
    pub proxies: Vec<FaultProxy>,
    pub envoys: Vec<Envoy>,
}

impl Fleet {
    /// Starts this many Envoys over one sidecar with a database of its own.
    pub async fn start(envoys: usize) -> Fleet {
        Fleet::over(envoys, &[None]).await
    }

    /// Starts this many Envoys, and a sidecar for each database: the URL of a PostgreSQL, or `None` for a file. The Envoys
    /// are spread over the sidecars.
    pub async fn over(envoys: usize, databases: &[Option<&str>]) -> Fleet {
        let (mut sidecars, mut proxies) = (Vec::new(), Vec::new());
        for database in databases {
            let sidecar = Sidecar::start(options(*database)).await;
            proxies.push(FaultProxy::start(sidecar.address()).await);
            sidecars.push(sidecar);
        }
        let mut fleet = Fleet { llm: MockLlm::start().await, sidecars, proxies, envoys: Vec::new() };
        // All at the same time, since each of them compiles the module.
        let starting: Vec<_> = (0..envoys).map(|number| fleet.start_envoy(number)).collect();
        for envoy in starting {
            fleet.envoys.push(envoy.await.expect("Envoy starts"));
        }
        fleet.settled().await;
        fleet
    }

    fn start_envoy(&self, number: usize) -> JoinHandle<Envoy> {
        let fields = json!({"envoy_name": name(number), "sync_wait_seconds": 1});
        let sidecar = number % self.sidecars.len();
        let config = envoy_config(&self.llm, &self.sidecars[sidecar], wasm_module(), &fields);
        let config = EnvoyConfig { sidecar: Some(self.proxies[sidecar].address()), ..config };
        tokio::spawn(async move { Envoy::start(&envoy_yaml(&config), 1).await })
    }

    /// Returns the addresses of one Envoy and one sidecar.
    pub fn remote(&self, envoy: usize, sidecar: usize) -> Remote {
        let (envoy, sidecar) = (self.envoys[envoy].url(), self.sidecars[sidecar].url());
        Remote { envoy, sidecar, operator: OPERATOR.to_owned() }
    }

    /// Returns a client of each Envoy.
    pub fn callers(&self, agent: &str) -> Vec<Caller> {
        self.envoys.iter().map(|envoy| Caller::new(envoy.url(), agent)).collect()
    }

    /// Switches the kill switch on for an agent, and waits until every Envoy knows.
    pub async fn enable(&self, agent: &str, settings: Value) {
        let mut policy = json!({"kill_switch_enabled": true});
        for (name, value) in settings.as_object().into_iter().flatten() {
            policy[name] = value.clone();
        }
        let path = format!("/v1/agents/{agent}");
        let (status, body) = self.remote(0, 0).api("PUT", &path, Some(policy)).await;
        assert!((200..300).contains(&status), "{agent}: {status} {body}");
        self.settled().await;
    }

    /// Waits until every Envoy has applied the latest policies, as the sidecar to which it reports says.
    pub async fn settled(&self) {
        wait_until("every Envoy has applied the latest policies", SOON, || async {
            let (mut current, mut applied) = (0, Vec::new());
            for sidecar in 0..self.sidecars.len() {
                let (_, state) = self.remote(0, sidecar).api("GET", "/v1/envoys", None).await;
                current = state["current_rev"].as_u64().unwrap_or(u64::MAX).max(current);
                let listed = state["envoys"].as_array().cloned().unwrap_or_default();
                let own = (sidecar..self.envoys.len()).step_by(self.sidecars.len());
                applied.extend(own.map(|number| {
                    let is_own = |envoy: &&Value| envoy["envoy"] == name(number);
                    listed.iter().find(is_own).and_then(|envoy| envoy["applied_rev"].as_u64())
                }));
            }
            applied.iter().all(|applied| *applied >= Some(current))
        })
        .await;
    }

    /// Returns how many calls and answers each sidecar has merged.
    pub async fn merged(&self) -> Vec<u64> {
        let mut merged = Vec::new();
        for sidecar in 0..self.sidecars.len() {
            merged.push(self.remote(0, sidecar).sidecar_metric("kill_switch_fleet_entries_total").await as u64);
        }
        merged
    }

    /// Waits until every sidecar has merged this many calls and answers.
    pub async fn wait_for_merged(&self, entries: u64) {
        wait_until("the calls are merged", SOON, || async {
            self.merged().await.iter().all(|merged| *merged >= entries)
        })
        .await;
    }

    /// Lets an agent loop over all Envoys in turn until a call is refused. Returns the number of the call that was refused,
    /// and how long after the beginning of the sixth call the last call began that was answered.
    pub async fn loop_until_refused(&self, agent: &str, pace: Pace) -> (usize, Duration) {
        let callers = self.callers(agent);
        let agent = Agent::new(Kind::Looping, callers[0].clone(), Format::OpenAiChat, false);
        let mut agent = if pace == Pace::NoPause { agent.answered_after(MODEL_TIME) } else { agent };
        let before = self.merged().await.into_iter().max().unwrap_or(0);
        let began = Instant::now();
        let (mut sixth, mut last) = (began, began);
        let mut number = 0;
        loop {
            number += 1;
            assert!(began.elapsed() < LOOP_MAX, "call {number} is still answered");
            let call_began = Instant::now();
            if number <= 6 {
                sixth = call_began;
            }
            agent.call_through(callers[number % callers.len()].clone());
            match agent.call().await.reply {
                Ok(reply) if matches!(reply.status, 403 | 429) => {
                    return (number, last.saturating_duration_since(sixth));
                }
                reply => {
                    assert!(reply.is_ok(), "{reply:?}");
                    last = call_began;
                }
            }
            if pace == Pace::UntilMerged {
                self.wait_for_merged(before + 2 * number as u64).await;
                self.settled().await;
            }
        }
    }

    /// Lets healthy agents call over all Envoys in turn, with this pause after each call, for a while.
    pub async fn healthy(
        &self,
        prefix: &str,
        agents: usize,
        pause: Duration,
        lasts: Duration,
    ) -> Vec<JoinHandle<Tally>> {
        let mut working = Vec::new();
        for number in 0..agents {
            let name = format!("{prefix}-{number}");
            self.enable(&name, json!({})).await;
            working.push(tokio::spawn(work(number, self.callers(&name), pause, lasts)));
        }
        working
    }
}

/// Returns the name of an Envoy.
fn name(number: usize) -> String {
    format!("edge-{number}")
}

/// Returns the options of a sidecar over a database.
fn options(database: Option<&str>) -> SidecarOptions {
    let mut options = SidecarOptions::default();
    let environment = ENVIRONMENT.map(|(name, value)| (format!("KILL_SWITCH_{name}"), value.to_owned()));
    options.environment = environment.to_vec();
    if let Some(url) = database {
        options.arguments.truncate(3);
        options.environment.push(("KILL_SWITCH_DB".to_owned(), url.to_owned()));
    }
    options
}

async fn work(number: usize, callers: Vec<Caller>, pause: Duration, lasts: Duration) -> Tally {
    let kind = if number.is_multiple_of(2) { Kind::Chatty } else { Kind::Healthy };
    let format = Format::CHATS[number % Format::CHATS.len()];
    let mut agent = Agent::new(kind, callers[0].clone(), format, number.is_multiple_of(3));
    let (began, mut tally) = (Instant::now(), Tally::default());
    while began.elapsed() < lasts {
        agent.call_through(callers[(number + tally.calls) % callers.len()].clone());
        let call_began = Instant::now();
        let call = agent.call().await;
        tally.count(call_began, call.reply.map(|reply| reply.status));
        tokio::time::sleep(pause).await;
    }
    tally
}
