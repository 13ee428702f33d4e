//! A mock LLM that speaks the real services' wire formats.
//!
//! It answers by script (see [`Script`]) and records what reached it, so that a test can assert that a refused call never
//! did. Ids and timestamps differ in every answer, as with the real services. `GET /lab/received` returns the number of
//! requests, and `GET /healthz` says that the server is up; neither is counted as a request.

mod deliver;
mod gates;
pub mod journal;
pub mod script;
mod upgrade;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use gates::Gates;
use journal::Journal;
pub use journal::Received;
pub use script::Script;

use crate::answer::Answer;
use crate::wire::{self, Ask};

/// How many requests are kept by default.
pub const KEEP: usize = 10_000;
/// Larger than any body that a test sends.
const MAX_BODY: usize = 256 << 20;

/// A running mock LLM. Stops when dropped.
pub struct MockLlm {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    script: Script,
    journal: Journal,
    gates: Gates,
}

impl MockLlm {
    /// Starts a mock LLM on a free port of the loopback interface.
    pub async fn start() -> MockLlm {
        MockLlm::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), KEEP)
            .await
            .unwrap_or_else(|error| panic!("the mock LLM cannot listen on the loopback interface: {error}"))
    }

    /// Starts a mock LLM at an address. It keeps the last `keep` requests.
    pub async fn start_at(address: SocketAddr, keep: usize) -> std::io::Result<MockLlm> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { script: Script::default(), journal: Journal::new(keep), gates: Gates::default() });
        let app = app(shared.clone());
        // With Nagle's algorithm the kernel would hold small pieces of a stream back.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let server = tokio::spawn(async move {
            // This never ends by itself: an error of a connection ends only that connection.
            let _ = axum::serve(listener, app).await;
        });
        Ok(MockLlm { address, shared, server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Queues answers for the next requests, in this order.
    pub fn enqueue(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.script.enqueue(answers);
    }

    /// Asks a closure for answers from now on. If it returns `None`, the request gets the default answer.
    pub fn decide(&self, closure: impl Fn(&Ask) -> Option<Answer> + Send + Sync + 'static) {
        self.shared.script.decide(closure);
    }

    /// Lets all answers pass that wait at this gate (see [`Answer::gate`]), now and from now on.
    pub fn open(&self, gate: &str) {
        self.shared.gates.open(gate);
    }

    /// Returns how many answers with this gate have begun and not ended. An answer also ends if its client goes away.
    pub fn under_way(&self, gate: &str) -> usize {
        self.shared.gates.under_way(gate)
    }

    /// Returns the kept requests, oldest first.
    pub fn received(&self) -> Vec<Received> {
        self.shared.journal.entries()
    }

    /// Returns the kept requests that carry this `x-agent-id`.
    pub fn received_from(&self, agent_id: &str) -> Vec<Received> {
        self.received().into_iter().filter(|request| request.header("x-agent-id") == agent_id).collect()
    }

    /// Returns how many requests have arrived since the start.
    pub fn count(&self) -> u64 {
        self.shared.journal.count()
    }

    /// Waits until the kept requests satisfy `enough`, and returns them. Panics at the deadline.
    pub async fn wait_for(
        &self,
        what: &str,
        deadline: Duration,
        enough: impl Fn(&[Received]) -> bool,
    ) -> Vec<Received> {
        let mut changes = self.shared.journal.changes();
        let waiting = async {
            loop {
                changes.mark_unchanged();
                let received = self.received();
                if enough(&received) {
                    return received;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(deadline, waiting).await.unwrap_or_else(|_| {
            panic!("timed out after {deadline:?}: {what}; the mock LLM has received {} requests", self.count())
        })
    }

    /// Runs until the process ends.
    pub async fn forever(mut self) {
        let _ = (&mut self.server).await;
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn app(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/lab/received", get(async |State(shared): State<Arc<Shared>>| format!("{}\n", shared.journal.count())))
        .fallback(answer)
        .with_state(shared)
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let number = shared.journal.begin(&head);
    let request = Request::from_parts(head.clone(), body);
    if upgrade::asked(&request) {
        return upgrade::echo(request);
    }
    let body = request.into_body();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return (StatusCode::BAD_REQUEST, "the body ended early\n").into_response();
    };
    shared.journal.complete(number, body.clone());
    let ask = Ask::read(&head.uri, head.headers, &body);
    if ask.is_notification() {
        return StatusCode::ACCEPTED.into_response();
    }
    if head.method == Method::GET && ask.accepts_events() {
        // The client asks for a stream of an MCP server's own messages, which this one does not have.
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let answer = shared.script.answer(&ask);
    let rendered = wire::render(&ask, &answer);
    let mut response = deliver::deliver(&answer, rendered, &shared.gates).await;
    response.headers_mut().insert(wire::ANSWERED, number.into());
    response
}
