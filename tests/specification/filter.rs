//! The filter with a host that a test controls: every request goes through the filter's own stream, as it does in Envoy,
//! and the test moves the clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use agent_kill_switch::agent::store_policy;
use agent_kill_switch::config::Config;
use agent_kill_switch::headers::Headers;
use agent_kill_switch::host::{CallId, Host, Mismatch, Outgoing, SharedValue, StreamHost, Version};
use agent_kill_switch::metrics::Metric;
use agent_kill_switch::reply::Reply;
use agent_kill_switch::stream::{Flow, Stream};
use agent_kill_switch::wire::{AgentPolicy, ScoreSample};
use agent_kill_switch::worker::Worker;
use lab::Answer;
use lab::chat::Request;
use lab::scenario::Closes;
use serde_json::{Value, json};

const AGENT: &str = "agent";
/// How long a call takes.
const CALL_MS: u64 = 200;

/// A worker of the filter, and one agent whose kill switch is on.
pub struct Filter {
    worker: Rc<Worker>,
    envoy: Rc<Envoy>,
    policy: RefCell<AgentPolicy>,
    /// The scores of all calls, in the order in which they were sent.
    pub scores: RefCell<Vec<ScoreSample>>,
}

/// A request that was forwarded, and whose answer has not come yet.
pub struct Forwarded {
    request: Request,
    exchange: Exchange,
    stream: Stream,
}

impl Filter {
    /// Creates a filter with the default configuration. The agent's policy has these settings.
    pub fn new(settings: &Value) -> Self {
        let config = Config::parse(br#"{"cluster": "kill-switch"}"#, &|_| None).unwrap();
        let worker = Rc::new(Worker::new(config, "envoy".to_owned()));
        worker.round.set(Some(1));
        let mut policy = json!({"agent_id": AGENT, "active": true, "kill_switch_enabled": true});
        policy.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let policy = RefCell::new(serde_json::from_value(policy).unwrap());
        let envoy = Rc::new(Envoy { now_ms: Cell::new(1_700_000_000_000), ..Envoy::default() });
        let filter = Self { worker, envoy, policy, scores: RefCell::default() };
        filter.store_policy();
        filter
    }

    /// Activates the agent, as a person does after a kill.
    pub fn activate(&self) {
        self.policy.borrow_mut().generation += 1;
        self.store_policy();
    }

    fn store_policy(&self) {
        store_policy(&Exchange::new(&self.envoy), &self.policy.borrow(), 1).unwrap();
    }

    /// Lets time pass.
    pub fn wait_seconds(&self, seconds: u64) {
        self.envoy.wait(seconds * 1000);
    }

    /// Sends a request. Returns `None` if it was refused.
    pub fn send(&self, request: &Request) -> Option<Forwarded> {
        let body = request.body_text();
        let headers = [(":method", "POST"), (":path", &request.path), (":authority", "llm"), ("x-agent-id", AGENT)];
        let json = request.raw.is_none().then_some(("content-type", "application/json"));
        let own = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(json);
        let exchange = Exchange::new(&self.envoy);
        exchange.request.borrow_mut().extend(headers.into_iter().chain(own).map(owned));
        *exchange.body.borrow_mut() = body.clone().into_bytes();
        let mut stream = Stream::new(Rc::clone(&self.worker));
        stream.request_headers(&exchange, false);
        if !exchange.refused.get() {
            stream.request_body(&exchange, body.len(), true);
        }
        let observed = self.worker.observations.borrow_mut().take();
        let scores = observed.into_iter().flat_map(|agent| agent.scores);
        self.scores.borrow_mut().extend(scores);
        (!exchange.refused.get()).then(|| Forwarded { request: request.clone(), exchange, stream })
    }

    /// Lets the answer to a request pass, in pieces of a few bytes, as far as the client reads it.
    pub fn answer(&self, forwarded: Forwarded, answer: &Answer, closes: Closes) {
        let Forwarded { request, exchange, mut stream } = forwarded;
        self.envoy.wait(CALL_MS);
        let response = request.reply(answer);
        let status = answer.status.to_string();
        let headers = [(":status", &*status), ("content-type", response.content_type), UPSTREAM_TIME];
        exchange.response.borrow_mut().extend(headers.map(owned));
        stream.response_headers(&exchange, false);
        let read = if closes == Closes::InTheMiddle { 1 } else { usize::MAX };
        let pieces: String = response.pieces.into_iter().take(read).collect();
        for chunk in pieces.as_bytes().chunks(7) {
            *exchange.chunk.borrow_mut() = chunk.to_vec();
            if stream.response_body(&exchange, chunk.len(), false) == Flow::Hold {
                break;
            }
        }
        if closes == Closes::AtEnd {
            stream.response_body(&exchange, 0, true);
        } else {
            exchange.set_property("response.code_details", "downstream_remote_disconnect");
        }
        stream.closed(&exchange);
    }

    /// Returns in how many answers the model repeated itself since this was last asked, and was not cut off.
    pub fn answer_loops(&self) -> u64 {
        self.worker.observations.borrow_mut().take().iter().map(|agent| agent.answer_loops).sum()
    }

    /// Returns how many answers were cut off.
    pub fn cuts(&self) -> usize {
        self.envoy.cuts.get()
    }

    /// Returns how many kills wait to be reported.
    pub fn reports(&self) -> usize {
        let shared = self.envoy.shared.borrow();
        let buckets = shared.iter().filter(|(key, (bytes, _))| key.starts_with("aks/4/out/") && !bytes.is_empty());
        buckets.map(|(_, (bytes, _))| bytes.split(|byte| *byte == b'\n').count()).sum()
    }
}

/// The header by which the filter knows that an answer came from the upstream.
const UPSTREAM_TIME: (&str, &str) = ("x-envoy-upstream-service-time", "200");

fn owned((name, value): (&str, &str)) -> (String, Vec<u8>) {
    (name.to_owned(), value.as_bytes().to_vec())
}

/// What all requests share: the clock and the shared data.
#[derive(Default)]
struct Envoy {
    now_ms: Cell<u64>,
    random: Cell<u64>,
    cuts: Cell<usize>,
    shared: RefCell<BTreeMap<String, (Vec<u8>, u32)>>,
}

impl Envoy {
    fn wait(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }
}

/// One request and its answer, as the filter's stream sees them.
#[derive(Default)]
struct Exchange {
    envoy: Rc<Envoy>,
    request: RefCell<Vec<(String, Vec<u8>)>>,
    body: RefCell<Vec<u8>>,
    response: RefCell<Vec<(String, Vec<u8>)>>,
    chunk: RefCell<Vec<u8>>,
    properties: RefCell<BTreeMap<String, Vec<u8>>>,
    refused: Cell<bool>,
}

impl Exchange {
    fn new(envoy: &Rc<Envoy>) -> Self {
        Self { envoy: Rc::clone(envoy), ..Self::default() }
    }
}

fn all(headers: &RefCell<Vec<(String, Vec<u8>)>>) -> Headers {
    Headers::new(Headers::encode(headers.borrow().iter().map(|(name, value)| (name.as_str(), value.as_slice()))))
}

impl Host for Exchange {
    fn now_ns(&self) -> u64 {
        self.envoy.now_ms.get() * 1_000_000
    }

    fn random(&self) -> u64 {
        self.envoy.random.set(self.envoy.random.get() + 1);
        self.envoy.random.get()
    }

    fn get(&self, key: &str) -> SharedValue {
        match self.envoy.shared.borrow().get(key) {
            Some((bytes, version)) => SharedValue { bytes: bytes.clone(), version: Version::At(*version) },
            None => SharedValue::default(),
        }
    }

    fn set(&self, key: &str, bytes: &[u8], version: Version) -> Result<(), Mismatch> {
        if self.get(key).version != version {
            return Err(Mismatch);
        }
        let next = match version {
            Version::Absent => 1,
            Version::At(version) => version + 1,
        };
        self.envoy.shared.borrow_mut().insert(key.to_owned(), (bytes.to_vec(), next));
        Ok(())
    }

    fn dispatch(&self, _: &Outgoing) -> Option<CallId> {
        None
    }

    fn count(&self, _: Metric, _: u64) {}

    fn record(&self, _: Metric, _: u64) {}
}

impl StreamHost for Exchange {
    fn request_headers(&self) -> Headers {
        all(&self.request)
    }

    fn set_request_header(&self, name: &str, value: Option<&[u8]>) {
        let mut headers = self.request.borrow_mut();
        headers.retain(|(known, _)| known != name);
        headers.extend(value.map(|value| (name.to_owned(), value.to_vec())));
    }

    fn response_headers(&self) -> Headers {
        all(&self.response)
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        self.properties.borrow().get(&path.join(".")).cloned()
    }

    fn set_property(&self, name: &str, value: &str) {
        self.properties.borrow_mut().insert(name.to_owned(), value.as_bytes().to_vec());
    }

    fn request_body(&self, start: usize, max: usize) -> Vec<u8> {
        self.body.borrow().iter().skip(start).take(max).copied().collect()
    }

    fn response_body(&self, size: usize) -> Vec<u8> {
        self.chunk.borrow().iter().take(size).copied().collect()
    }

    fn reply(&self, _: &Reply) {
        self.refused.set(true);
    }

    fn reset_response(&self) -> bool {
        self.envoy.cuts.set(self.envoy.cuts.get() + 1);
        true
    }
}
