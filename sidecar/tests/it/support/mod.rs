//! What the tests share: a sidecar inside the test process, a sidecar as a process of its own, and a client for either.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent_kill_switch::wire::SyncAnswer;
use kill_switch::alerts::{AlertOptions, Alerts, Guard, SystemLookup};
use kill_switch::api::{self, App};
use kill_switch::dashboard::{self, Dashboard};
use kill_switch::model::Scope;
use kill_switch::service::{Limits, Service};
use kill_switch::store::Store;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub mod calls;
pub mod fleet;
pub mod postgres;
pub mod process;
pub mod receiver;
pub mod silence;
pub mod smtp;

pub const ENFORCER: &str = "enforcer-secret-of-the-tests";
pub const VIEWER: &str = "viewer-secret-of-the-tests";
pub const OPERATOR: &str = "operator-secret-of-the-tests";

/// A moment in 2024 at which every test begins; the clock stands still unless told otherwise.
pub const START_MS: u64 = 1_705_314_600_000;

/// A sidecar inside the test, on a free port of loopback.
pub struct Sidecar {
    pub api: Api,
    pub service: Arc<Service>,
    pub alerts: Arc<Alerts>,
    pub store: Arc<Store>,
    pub clock: Arc<AtomicU64>,
    pub dir: TempDir,
}

impl Sidecar {
    pub async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    /// Starts a sidecar that knows one agent, with the kill switch on.
    pub async fn guarding(id: &str) -> Self {
        let sidecar = Self::start().await;
        sidecar.api.guarded(id).await;
        sidecar
    }

    pub async fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::sqlite(&dir.path().join("test.db")).await.unwrap());
        Self::over(store, limits, dir).await
    }

    pub async fn over(store: Arc<Store>, limits: Limits, dir: TempDir) -> Self {
        // The receivers of these tests are on loopback.
        Self::alerting(store, limits, dir, (Guard::anywhere(Arc::new(SystemLookup)), AlertOptions::default())).await
    }

    /// With alerts of one's own choice.
    pub async fn with_alerts(guard: Guard, options: AlertOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::sqlite(&dir.path().join("test.db")).await.unwrap());
        Self::alerting(store, Limits::default(), dir, (guard, options)).await
    }

    /// Another sidecar over the same database.
    pub async fn over_same(other: &Self, guard: Guard) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::clone(&other.store);
        Self::alerting(store, Limits::default(), dir, (guard, AlertOptions::default())).await
    }

    async fn alerting(store: Arc<Store>, limits: Limits, dir: TempDir, alerts: (Guard, AlertOptions)) -> Self {
        api::install_recorder();
        let clock = Arc::new(AtomicU64::new(START_MS));
        let time = Arc::clone(&clock);
        let now = Arc::new(move || time.load(Ordering::SeqCst));
        let service = Arc::new(Service::new(Arc::clone(&store), now, limits).await.unwrap());
        for (scope, secret) in [(Scope::Enforcer, ENFORCER), (Scope::Viewer, VIEWER), (Scope::Operator, OPERATOR)] {
            service.fix_token(scope.as_str(), scope, secret).unwrap();
        }
        let alerts = Arc::new(Alerts::new(Arc::clone(&service), alerts.0, alerts.1).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::at(&format!("http://{}", listener.local_addr().unwrap()));
        let pages = Dashboard::new(Arc::clone(&service), Arc::clone(&alerts), false);
        let app = dashboard::beside(api::router(App::new(Arc::clone(&service), Arc::clone(&alerts))), pages);
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { api, service, alerts, store, clock, dir }
    }
}

impl Sidecar {
    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        self.clock.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    /// Empties the outbox and tries what is due; how many tries that were.
    pub async fn deliver(&self) -> usize {
        self.alerts.deliver_due().await.unwrap()
    }
}

/// Somewhere to send requests to.
#[derive(Clone)]
pub struct Api {
    pub base: String,
    pub http: reqwest::Client,
    pub enforcer: String,
    pub operator: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn etag(&self) -> String {
        self.headers["etag"].to_str().unwrap().to_owned()
    }

    /// The body of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// The body of an answer to a filter that has something to apply.
    #[track_caller]
    pub fn synced(self) -> SyncAnswer {
        assert_eq!(self.status, 200, "{}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }

    /// The problem of a refusal.
    #[track_caller]
    pub fn problem(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        problem
    }
}

impl Api {
    pub fn at(base: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Longer than any poll waits, so that only a sidecar that hangs runs into it.
        let http = reqwest::Client::builder().timeout(2 * SOON).build().unwrap();
        Self { base: base.to_owned(), http, enforcer: ENFORCER.to_owned(), operator: OPERATOR.to_owned() }
    }

    pub fn request(&self, method: Method, path: &str, token: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(token)
    }

    pub async fn take(request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Asks as an operator.
    pub async fn get(&self, path: &str) -> Answer {
        Self::take(self.request(Method::GET, path, &self.operator)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        Self::take(self.request(Method::PUT, path, &self.operator).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        Self::take(self.request(Method::PATCH, path, &self.operator).json(&body)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        Self::take(self.request(Method::POST, path, &self.operator).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Self::take(self.request(Method::DELETE, path, &self.operator)).await
    }

    /// Reports as a filter.
    pub async fn report(&self, path: &str, body: Value) -> Answer {
        Self::take(self.request(Method::POST, path, &self.enforcer).json(&body)).await
    }

    /// Syncs as a filter.
    pub async fn sync(&self, query: &str) -> Answer {
        Self::take(self.request(Method::GET, &format!("/v1/sync?{query}"), &self.enforcer)).await
    }

    /// Begins a poll of an Envoy that has applied everything up to a revision. Returns once the poll waits, with its answer
    /// and when that arrives.
    pub async fn poll(&self, envoy: &str, epoch: &str, since: u64) -> JoinHandle<(SyncAnswer, Instant)> {
        let (api, query) = (self.clone(), format!("epoch={epoch}&since={since}&wait=50&envoy={envoy}"));
        let poll = tokio::spawn(async move { (api.sync(&query).await.synced(), Instant::now()) });
        eventually("the poll waits", || async {
            let listed = self.get("/v1/envoys").await.ok();
            listed["envoys"].as_array().unwrap().iter().any(|one| one["envoy"] == envoy)
        })
        .await;
        poll
    }

    pub async fn agent(&self, id: &str) -> Value {
        self.get(&format!("/v1/agents/{id}")).await.ok()
    }

    /// An agent with the kill switch on.
    pub async fn guarded(&self, id: &str) -> Value {
        self.put(&format!("/v1/agents/{id}"), json!({"kill_switch_enabled": true})).await.ok()
    }

    /// Events that match, the newest first.
    pub async fn events(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/events?{query}")).await.ok();
        page["events"].as_array().unwrap().clone()
    }

    pub async fn outbox_depth(&self) -> u64 {
        let text = self.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix("kill_switch_alert_outbox_depth "));
        line.unwrap().parse().unwrap()
    }
}

/// A report like the filter's, of the loop in the specification: 5 x 1 + 4 x 2.
pub fn kill(kill_id: &str, agent_id: &str, generation: u64) -> Value {
    json!({
        "kill_id": kill_id, "agent_id": agent_id, "generation": generation, "action": "deactivate", "envoy": "edge-1",
        "at_ms": START_MS - 5, "score": 13.0, "threshold": 10.0, "window_size": 20, "counting": "progress",
        "similar_prompts": 5, "similar_responses": 4, "repeated_tool_calls": 0,
        "reason": "the same prompt and the same answer 5 times in the last 6 calls", "tools": ["read_file"],
        "matches": [{"calls_ago": 1, "age_ms": 800, "prompt_distance": 0, "response_distance": 1,
                     "same_tool_call": true, "prompt_hash": "00000000000000ff"}],
    })
}

/// The same report with something else in it.
pub fn kill_with(kill_id: &str, agent_id: &str, generation: u64, more: Value) -> Value {
    let mut report = kill(kill_id, agent_id, generation);
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    report
}

/// A report of a loop in a conversation that stops only this conversation, in the first generation of its agent.
pub fn stop(kill_id: &str, agent_id: &str, session: u64) -> Value {
    stop_with(kill_id, agent_id, session, json!({}))
}

/// The same report with something else in it.
pub fn stop_with(kill_id: &str, agent_id: &str, session: u64, more: Value) -> Value {
    let session = json!({"key": key(session), "id": format!("chat-{session}"), "releases": 0});
    let mut report = kill_with(kill_id, agent_id, 1, json!({"scope": "session", "session": session}));
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    report
}

/// The key of a conversation.
pub fn key(session: u64) -> String {
    format!("{session:016x}")
}

/// Checks that an object has these members with these values. It may have others.
#[track_caller]
pub fn assert_members(object: &Value, expected: Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&object[name], value, "{name} of {object}");
    }
}

/// How long to wait for something that should happen at once. Waiting ends when it happens, so this only has to be longer
/// than a busy machine takes.
pub const SOON: Duration = Duration::from_secs(60);

/// Waits until a condition holds. Panics after [`SOON`].
pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) {
    lab::proc::wait_until(what, SOON, holds).await;
}
