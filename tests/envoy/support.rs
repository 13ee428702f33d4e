//! What the tests have in common: one runtime, meshes that tests share, and agents that loop.

use std::future::Future;
use std::sync::{Arc, LazyLock, Weak};

use lab::agent::{Agent, Kind};
use lab::chat::{Caller, Reply, Request};
use lab::mesh::{Mesh, MeshOptions};
use lab::raw::Raw;
use lab::{Answer, Format};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// The statuses of a looping agent's calls: the sixth identical call is the first to be refused.
pub const SIXTH_REFUSED: [u16; 6] = [200, 200, 200, 200, 200, 403];
/// The start of a request written by hand.
pub const CHAT: &str = "POST /v1/chat/completions";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Runs a test on a runtime that all tests share, so that a mesh can outlive the test that started it.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    RUNTIME.block_on(test)
}

/// A mesh that the tests of one file share. It ends with the last test that uses it, so that no process is left behind.
pub struct Shared {
    mesh: Mutex<Weak<Mesh>>,
    options: fn() -> MeshOptions,
}

impl Shared {
    /// Creates a shared mesh with these options. It is started when the first test asks for it.
    pub const fn new(options: fn() -> MeshOptions) -> Self {
        Self { mesh: Mutex::const_new(Weak::new()), options }
    }

    pub async fn get(&self) -> Arc<Mesh> {
        let mut shared = self.mesh.lock().await;
        if let Some(mesh) = shared.upgrade() {
            return mesh;
        }
        let mesh = Arc::new(Mesh::with((self.options)()).await);
        *shared = Arc::downgrade(&mesh);
        mesh
    }
}

/// Returns one of the filter's counters.
pub async fn counter(mesh: &Mesh, name: &str) -> u64 {
    mesh.envoy.stat(&format!("wasmcustom.kill_switch.{name}")).await
}

/// Makes an agent inactive, as a person does, and waits until Envoy knows.
pub async fn deactivated(mesh: &Mesh, agent: &str) {
    mesh.enable(agent, json!({})).await;
    mesh.deactivate(agent).await;
    mesh.settled().await;
}

/// Returns a chat request with one question.
pub fn ask(text: &str) -> Request {
    let body = json!({"model": "mock-1", "messages": [{"role": "user", "content": text}]});
    Request::new(Format::OpenAiChat, "/v1/chat/completions", body)
}

/// Returns a request written by hand, with further header lines, a body, and the body's length. It closes its connection.
pub fn by_hand(start: &str, agent: &str, headers: &str, body: &str) -> String {
    format!("{}content-length: {}\r\n\r\n{body}", head_by_hand(start, agent, headers), body.len())
}

/// Returns the head of a request written by hand, without the empty line at its end.
pub fn head_by_hand(start: &str, agent: &str, headers: &str) -> String {
    let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
    format!("{start} HTTP/1.1\r\nhost: llm\r\nx-agent-id: {agent}\r\nconnection: close\r\n{headers}")
}

/// Returns one chunk of a chunked body.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Sends bytes on a new connection.
pub async fn sent(mesh: &Mesh, request: impl AsRef<[u8]>) -> Raw {
    let mut raw = Raw::connect(mesh.envoy.address()).await;
    raw.send(request).await;
    raw
}

/// Makes the same request several times, and returns the statuses.
pub async fn repeated(caller: &Caller, request: &Request, answer: Option<&Answer>, calls: usize) -> Vec<u16> {
    let mut statuses = Vec::with_capacity(calls);
    for _ in 0..calls {
        statuses.push(caller.call(request, answer).await.unwrap().status);
    }
    statuses
}

/// Makes the calls of a loop in a conversation of its own, and returns the statuses.
pub async fn looping(caller: &Caller, calls: usize) -> Vec<u16> {
    Loop::new(caller).calls(calls).await
}

/// A loop that goes on in the same conversation.
pub struct Loop(Agent);

impl Loop {
    pub fn new(caller: &Caller) -> Self {
        Self(Agent::new(Kind::Looping, caller.clone(), Format::OpenAiChat, false))
    }

    /// Makes the next calls, and returns the statuses.
    pub async fn calls(&mut self, calls: usize) -> Vec<u16> {
        self.0.run(calls).await.into_iter().map(|call| call.reply.unwrap().status).collect()
    }
}

/// Makes calls that are not a loop, and returns the statuses: an agent that is refused was stopped before.
pub async fn chatting(caller: &Caller, calls: usize) -> Vec<u16> {
    statuses(&replies(Kind::Chatty, caller, calls).await)
}

/// Makes the calls of an agent, and returns the responses.
pub async fn replies(kind: Kind, caller: &Caller, calls: usize) -> Vec<Reply> {
    let made = Agent::new(kind, caller.clone(), Format::OpenAiChat, false).run(calls).await;
    made.into_iter().map(|call| call.reply.unwrap()).collect()
}

pub fn statuses(replies: &[Reply]) -> Vec<u16> {
    replies.iter().map(|reply| reply.status).collect()
}
