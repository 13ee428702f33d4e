//! A client that costs next to nothing: HTTP/1.1 by hand, one request after the other on a connection that is kept.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long an answer may take before the measurement is worthless.
const DEADLINE: Duration = Duration::from_secs(20);

/// A request but for its body.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where Envoy listens.
    pub address: SocketAddr,
    /// Whose request it is.
    pub agent: String,
    /// How the upstream is to answer.
    pub answer: String,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long the first byte of the body took.
    pub first_byte: Duration,
    /// How long all of it took.
    pub all: Duration,
}

/// One connection, renewed where the other side closes it.
pub struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Target {
    fn head(&self, length: usize) -> String {
        let Self { agent, answer, .. } = self;
        let path = bench::body::PATH;
        format!(
            "POST {path} HTTP/1.1\r\nhost: llm\r\nx-agent-id: {agent}\r\ncontent-type: application/json\r\n\
             x-bench: {answer}\r\ncontent-length: {length}\r\n\r\n"
        )
    }
}

impl Connection {
    /// One that is opened at the first call.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, buffer: Vec::with_capacity(64 * 1024) }
    }

    /// Whether the next call finds it open.
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Sends a request and waits for the answer. Connecting is not part of the time.
    pub async fn call(&mut self, target: &Target, body: &[u8]) -> Reply {
        self.call_with(target, body, |_| {}).await
    }

    /// The same; `seen` is told of all that has come each time that something comes.
    pub async fn call_with(&mut self, target: &Target, body: &[u8], seen: impl FnMut(&[u8])) -> Reply {
        let exchanged = tokio::time::timeout(DEADLINE, self.exchange(target, body, seen)).await;
        exchanged.unwrap_or_else(|_| panic!("no answer within {DEADLINE:?}"))
    }

    async fn exchange(&mut self, target: &Target, body: &[u8], mut seen: impl FnMut(&[u8])) -> Reply {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address).await,
        };
        let head = target.head(body.len());
        let started = Instant::now();
        // What is refused at its headers may be answered, and the connection closed, while the body is on its way.
        let sent = send(&mut stream, head.as_bytes(), body).await;
        self.buffer.clear();
        let mut first_byte = None;
        loop {
            if self.is_whole() {
                break;
            }
            match stream.read_buf(&mut self.buffer).await {
                Ok(size) if size > 0 => {}
                ended => panic!("the connection ended ({ended:?}) within an answer, and sending with {sent:?}"),
            }
            if first_byte.is_none() && find(&self.buffer, b"\r\n\r\n").is_some_and(|end| end + 4 < self.buffer.len()) {
                first_byte = Some(started.elapsed());
            }
            seen(&self.buffer);
        }
        let all = started.elapsed();
        let status = self.buffer.get(9..12).and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        let head = find(&self.buffer, b"\r\n\r\n").map_or(&[][..], |end| &self.buffer[..end]);
        if sent.is_ok() && find(head, b"connection: close").is_none() {
            self.stream = Some(stream);
        }
        Reply { status: status.unwrap_or(0), first_byte: first_byte.unwrap_or(all), all }
    }

    fn is_whole(&self) -> bool {
        let Some(end) = find(&self.buffer, b"\r\n\r\n") else { return false };
        let head = &self.buffer[..end];
        match find(head, b"content-length: ") {
            Some(start) => {
                let digits = head[start + 16..].iter().take_while(|byte| byte.is_ascii_digit());
                let length = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
                self.buffer.len() >= end + 4 + length
            }
            None => self.buffer.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}

async fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap_or_else(|error| panic!("cannot reach {address}: {error}"));
    stream.set_nodelay(true).expect("a connection takes options");
    stream
}

/// Head and body at once, as clients send them.
async fn send(stream: &mut TcpStream, head: &[u8], body: &[u8]) -> std::io::Result<()> {
    let sent = stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]).await?;
    if sent < head.len() {
        stream.write_all(&head[sent..]).await?;
    }
    stream.write_all(body.get(sent.saturating_sub(head.len())..).unwrap_or_default()).await
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted[0];
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(start, _)| start);
    starts.into_iter().find(|start| bytes[*start..].starts_with(wanted))
}
