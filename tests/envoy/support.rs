//! What the promises have in common: one runtime, meshes that tests share, and agents that loop.

use std::future::Future;
use std::sync::{Arc, LazyLock, Weak};

use lab::Format;
use lab::agent::{Agent, Kind};
use lab::chat::{Caller, Reply, Request};
use lab::mesh::{Mesh, MeshOptions};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// What a looping agent gets: the sixth identical call is the first to be refused.
pub const SIXTH_REFUSED: [u16; 6] = [200, 200, 200, 200, 200, 403];

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Runs a test on the runtime of all, on which a shared mesh lives on from one test to the next.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    RUNTIME.block_on(test)
}

/// A mesh that the tests of one file share. It ends with the last test that uses it, so that no process is left behind.
pub struct Shared {
    mesh: Mutex<Weak<Mesh>>,
    options: fn() -> MeshOptions,
}

impl Shared {
    /// A mesh with these options, started when the first test asks for it.
    pub const fn new(options: fn() -> MeshOptions) -> Self {
        Self { mesh: Mutex::const_new(Weak::new()), options }
    }

    /// The mesh.
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

/// A chat request that asks one thing.
pub fn ask(text: &str) -> Request {
    Request {
        format: Format::OpenAiChat,
        path: "/v1/chat/completions".to_owned(),
        headers: Vec::new(),
        body: json!({"model": "mock-1", "messages": [{"role": "user", "content": text}]}),
    }
}

/// A request by hand, with one more header line and a body whose length it announces; the connection ends with it.
pub fn by_hand(start: &str, agent: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!("{}content-length: {length}\r\n\r\n{body}", head_by_hand(start, agent, header))
}

/// The head of a request by hand, up to where its end or another header may follow.
pub fn head_by_hand(start: &str, agent: &str, header: &str) -> String {
    let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
    format!("{start} HTTP/1.1\r\nhost: llm\r\nx-agent-id: {agent}\r\nconnection: close\r\n{header}")
}

/// One chunk of a chunked body.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Makes so many calls of a loop; their statuses.
pub async fn looping(caller: &Caller, calls: usize) -> Vec<u16> {
    statuses(&loop_replies(caller, calls).await)
}

/// Makes so many calls that are no loop, so that whoever refuses them remembers why; their statuses.
pub async fn chatting(caller: &Caller, calls: usize) -> Vec<u16> {
    statuses(&replies(Kind::Chatty, caller, calls).await)
}

/// Makes so many calls of a loop; what came back.
pub async fn loop_replies(caller: &Caller, calls: usize) -> Vec<Reply> {
    replies(Kind::Looping, caller, calls).await
}

async fn replies(kind: Kind, caller: &Caller, calls: usize) -> Vec<Reply> {
    let mut agent = Agent::new(kind, caller.clone(), Format::OpenAiChat, false);
    let mut replies = Vec::with_capacity(calls);
    for _ in 0..calls {
        replies.push(agent.call().await.reply.unwrap());
    }
    replies
}

/// The statuses of replies.
pub fn statuses(replies: &[Reply]) -> Vec<u16> {
    replies.iter().map(|reply| reply.status).collect()
}
