//! An upstream that uses very little CPU: HTTP/1.1 written by hand on a separate thread, with prepared answers.
//!
//! Successive answers differ, since the filter looks for agents that always get the same answer. The request's header
//! `x-bench` says how to answer: `whole`; `sse N`, in N events; `step N`, in N events, each sent only after the client has
//! acknowledged the one before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench::text::english;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The number of different answers.
const ANSWERS: usize = 128;
/// The bytes of text in an answer.
const ANSWER_BYTES: usize = 600;
/// The number of different events of an answer.
const EVENTS_MAX: usize = 400;

/// A running upstream. It ends with the process.
pub struct Upstream {
    /// The address it listens on.
    pub address: SocketAddr,
    /// The client adds a permit for each event of a `step` answer that it has received.
    pub steps: Arc<Semaphore>,
}

struct Answers {
    whole: Vec<Vec<u8>>,
    events: Vec<Vec<Vec<u8>>>,
    next: AtomicUsize,
    steps: Arc<Semaphore>,
}

impl Upstream {
    pub fn start() -> Self {
        let steps = Arc::new(Semaphore::new(0));
        let answers = Arc::new(Answers::new(Arc::clone(&steps)));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
                tell.send(listener.local_addr().expect("an address")).expect("somebody waits for the address");
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    stream.set_nodelay(true).expect("a connection takes options");
                    tokio::spawn(serve(stream, Arc::clone(&answers)));
                }
            });
        });
        Self { address: told.recv().expect("the upstream listens"), steps }
    }
}

impl Answers {
    fn new(steps: Arc<Semaphore>) -> Self {
        let numbers = || 0..ANSWERS as u64;
        Self {
            whole: numbers().map(whole).collect(),
            events: numbers().map(events).collect(),
            next: AtomicUsize::new(0),
            steps,
        }
    }
}

fn whole(number: u64) -> Vec<u8> {
    let body = json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": english(ANSWER_BYTES, !number)}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
    });
    let body = body.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Returns events as chunks of a chunked body.
fn events(number: u64) -> Vec<Vec<u8>> {
    let text = english(EVENTS_MAX * 12, number);
    let words: Vec<&str> = text.split_inclusive(' ').take(EVENTS_MAX).collect();
    words
        .iter()
        .map(|word| {
            let event = json!({"id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk", "model": "gpt-4o",
                "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": null}]});
            chunk(&format!("data: {event}\n\n"))
        })
        .collect()
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

async fn serve(mut stream: TcpStream, answers: Arc<Answers>) {
    let mut buffer = vec![0; 256 * 1024];
    let mut filled = 0;
    loop {
        // Reads the head of the request.
        let end = loop {
            if let Some(end) = find(&buffer[..filled], b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut buffer[filled..]).await {
                Ok(size) if size > 0 => filled += size,
                _ => return,
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
        let length: usize = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        // The content of the body is ignored.
        let mut seen = filled - end;
        while seen < length {
            match stream.read(&mut buffer).await {
                Ok(size) if size > 0 => seen += size,
                _ => return,
            }
        }
        filled = 0;
        if answer(&mut stream, header(&head, "x-bench"), &answers).await.is_err() {
            return;
        }
    }
}

async fn answer(stream: &mut TcpStream, wanted: Option<&str>, answers: &Answers) -> std::io::Result<()> {
    let number = answers.next.fetch_add(1, Ordering::Relaxed) % ANSWERS;
    let Some((mode, count)) = wanted.and_then(|wanted| wanted.split_once(' ')) else {
        return stream.write_all(&answers.whole[number]).await;
    };
    let count: usize = count.parse().unwrap_or(1);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for event in answers.events[number].iter().cycle().take(count) {
        stream.write_all(event).await?;
        if mode == "step" {
            answers.steps.acquire().await.map_err(std::io::Error::other)?.forget();
        }
    }
    stream.write_all(&[chunk("data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat()).await
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
