//! Several Envoys with the filter, over one or several sidecars, with one mock LLM behind them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::agent::{Agent, Kind};
use crate::chat::Caller;
use crate::drill::Traffic;
use crate::fault::FaultProxy;
use crate::format::Format;
use crate::llm::MockLlm;
use crate::mesh::{OPERATOR, Remote, SOON, environment, envoy_config};
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
        Fleet::with(envoys, databases, &json!({})).await
    }

    /// Like `over`, with further fields of the filter's configuration.
    pub async fn with(envoys: usize, databases: &[Option<&str>], filter: &Value) -> Fleet {
        let (mut sidecars, mut proxies) = (Vec::new(), Vec::new());
        for database in databases {
            let sidecar = Sidecar::start(options(*database)).await;
            proxies.push(FaultProxy::start(sidecar.address()).await);
            sidecars.push(sidecar);
        }
        let mut fleet = Fleet { llm: MockLlm::start().await, sidecars, proxies, envoys: Vec::new() };
        // All at the same time, since each of them compiles the module.
        let starting: Vec<_> = (0..envoys).map(|number| fleet.start_envoy(number, filter)).collect();
        for envoy in starting {
            fleet.envoys.push(envoy.await.expect("Envoy starts"));
        }
        fleet.settled().await;
        fleet
    }

    fn start_envoy(&self, number: usize, filter: &Value) -> JoinHandle<Envoy> {
        let mut fields = filter.clone();
        fields["envoy_name"] = json!(name(number));
        fields["sync_wait_seconds"] = json!(1);
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
        self.remote(0, 0).switch_on(agent, &settings).await;
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

    /// Returns how many calls and answers each sidecar has merged. Those that the Envoys have dropped count as merged, because
    /// no sidecar will ever be told of them.
    pub async fn merged(&self) -> Vec<u64> {
        let mut dropped = 0;
        for envoy in &self.envoys {
            dropped += envoy.stat("wasmcustom.kill_switch.entries_dropped").await;
        }
        let mut merged = Vec::new();
        for sidecar in 0..self.sidecars.len() {
            let entries = self.remote(0, sidecar).sidecar_metric("kill_switch_fleet_entries_total").await as u64;
            merged.push(dropped + entries);
        }
        merged
    }

    /// Waits until every sidecar has merged this many calls and answers, except those that were dropped.
    pub async fn wait_for_merged(&self, entries: u64) {
        wait_until("the calls are merged", SOON, || async {
            self.merged().await.iter().all(|merged| *merged >= entries)
        })
        .await;
    }

    /// Returns an agent that loops over all Envoys in turn.
    pub fn looping(&self, agent: &str, pace: Pace) -> SpreadLoop {
        let callers = self.callers(agent);
        let agent = Agent::new(Kind::Looping, callers[0].clone(), Format::OpenAiChat, false);
        let agent = if pace == Pace::NoPause { agent.answered_after(MODEL_TIME) } else { agent };
        SpreadLoop { agent, callers, calls: 0 }
    }

    /// Lets an agent loop over all Envoys in turn until a call is refused. Returns the number of the call that was refused,
    /// and how long after the beginning of the sixth call the last call began that was answered.
    pub async fn loop_until_refused(&self, agent: &str, pace: Pace) -> (usize, Duration) {
        let mut agent = self.looping(agent, pace);
        let before = self.merged().await.into_iter().max().unwrap_or(0);
        let began = Instant::now();
        let (mut sixth, mut last) = (began, began);
        loop {
            let call_began = Instant::now();
            if agent.calls < 6 {
                sixth = call_began;
            }
            if agent.is_refused().await {
                return (agent.calls, last.saturating_duration_since(sixth));
            }
            last = call_began;
            assert!(began.elapsed() < LOOP_MAX, "call {} is still answered", agent.calls);
            if pace == Pace::UntilMerged {
                self.wait_for_merged(before + 2 * agent.calls as u64).await;
                self.settled().await;
            }
        }
    }

    /// Lets healthy agents call over all Envoys in turn, with this pause after each call.
    pub async fn healthy(&self, prefix: &str, agents: usize, pause: Duration) -> Traffic {
        let mut callers = Vec::new();
        for number in 0..agents {
            let name = format!("{prefix}-{number}");
            self.remote(0, 0).switch_on(&name, &json!({})).await;
            callers.push(self.callers(&name));
        }
        self.settled().await;
        Traffic::start(callers, pause)
    }
}

/// An agent that loops over several Envoys in turn.
pub struct SpreadLoop {
    agent: Agent,
    callers: Vec<Caller>,
    /// How many calls it has made.
    pub calls: usize,
}

impl SpreadLoop {
    /// Makes the next call. Returns whether it was refused.
    pub async fn is_refused(&mut self) -> bool {
        self.calls += 1;
        self.agent.call_through(self.callers[self.calls % self.callers.len()].clone());
        let reply = self.agent.call().await.reply;
        let reply = reply.unwrap_or_else(|error| panic!("call {}: {error}", self.calls));
        matches!(reply.status, 403 | 429)
    }

    /// Makes calls until one is refused.
    pub async fn until_refused(&mut self) {
        let began = Instant::now();
        while !self.is_refused().await {
            assert!(began.elapsed() < LOOP_MAX, "call {} is still answered", self.calls);
        }
    }
}

/// Returns the name of an Envoy.
fn name(number: usize) -> String {
    format!("edge-{number}")
}

/// Returns the options of a sidecar over a database.
fn options(database: Option<&str>) -> SidecarOptions {
    let mut options = SidecarOptions { environment: environment(), ..SidecarOptions::default() };
    if let Some(url) = database {
        options.arguments.truncate(3);
        options.environment.push(("KILL_SWITCH_DB".to_owned(), url.to_owned()));
    }
    options
}
