//! HTTP/1.1 written by hand, for requests that no client library sends: bytes that are not text, bodies sent byte by byte,
//! connections that leave HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long the other side may take to send what is waited for. Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A connection, and everything received on it.
pub struct Raw {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Raw {
    /// Opens a connection.
    pub async fn connect(address: SocketAddr) -> Raw {
        let stream =
            TcpStream::connect(address).await.unwrap_or_else(|error| panic!("cannot reach {address}: {error}"));
        // Pieces must arrive as they are written.
        stream.set_nodelay(true).expect("a connection takes options");
        Raw { stream, seen: Vec::new() }
    }

    /// Sends bytes. Errors are ignored: the other side may have answered and closed the connection already.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Waits until `text` has been received, and returns everything so far.
    pub async fn until(&mut self, text: &str) -> String {
        loop {
            let seen = String::from_utf8_lossy(&self.seen).into_owned();
            if seen.contains(text) {
                return seen;
            }
            assert!(self.more().await, "the connection ended before {text:?} came: {seen:?}");
        }
    }

    /// Waits for the status line and returns its status.
    pub async fn status(&mut self) -> u16 {
        let head = self.until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("an answer begins with a status line, not {head:?}"))
    }

    /// Waits until the other side closes the connection, and returns everything.
    pub async fn to_end(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Returns whether nothing has been received yet. Does not wait.
    pub fn is_silent(&mut self) -> bool {
        let mut buffer = [0; 4096];
        if let Ok(size) = self.stream.try_read(&mut buffer) {
            self.seen.extend_from_slice(&buffer[..size]);
        }
        self.seen.is_empty()
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 65_536];
        let read = tokio::time::timeout(DEADLINE, self.stream.read(&mut buffer)).await;
        let read = read.unwrap_or_else(|_| {
            panic!("nothing came for {DEADLINE:?} after {:?}", String::from_utf8_lossy(&self.seen));
        });
        // A reset also ends the connection.
        let size = read.unwrap_or(0);
        self.seen.extend_from_slice(&buffer[..size]);
        size > 0
    }
}
