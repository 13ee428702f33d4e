//! A client that uses very little CPU: HTTP/1.1 written by hand, one request after the other on one connection.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest time that an answer may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// A request without its body.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    pub agent: String,
    /// The id of the conversation, if the request has one.
    pub session: Option<String>,
    /// How the upstream is to answer: see `upstream`.
    pub answer: String,
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    pub status: u16,
    /// The time to the first byte of the body.
    pub first_byte: Duration,
    /// The time to the last byte.
    pub all: Duration,
}

/// A connection that is opened again if the other side closes it.
pub struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Target {
    fn head(&self, length: usize) -> String {
        let Self { agent, answer, .. } = self;
        let path = bench::body::PATH;
        let session = self.session.as_ref().map_or_else(String::new, |id| format!("x-session-id: {id}\r\n"));
        format!(
            "POST {path} HTTP/1.1\r\nhost: llm\r\nx-agent-id: {agent}\r\ncontent-type: application/json\r\n\
             {session}x-bench: {answer}\r\ncontent-length: {length}\r\n\r\n"
        )
    }
}

impl Connection {
    /// Creates a connection that is opened by the first call.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, stream: None, buffer: Vec::with_capacity(64 * 1024) }
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Sends a request and waits for the answer. The time does not include connecting.
    pub async fn call(&mut self, target: &Target, body: &[u8]) -> Reply {
        self.call_with(target, body, |_| {}).await
    }

    /// Like `call`, and passes everything received so far to `seen` after each read.
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
        // A request that is refused at its headers may be answered, and the connection closed, before the body is sent.
        let sent = send(&mut stream, head.as_bytes(), body).await;
        self.buffer.clear();
        let mut first_byte = None;
        loop {
            if self.is_whole() {
                break;
            }
            match stream.read_buf(&mut self.buffer).await {
                Ok(size) if size > 0 => {}
                ended => panic!("the connection ended within an answer: {ended:?}; the request was sent with {sent:?}"),
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

/// Sends head and body with one system call, as clients do.
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
