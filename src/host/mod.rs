//! What the filter needs of its surroundings, as traits: a clock, shared data, calls to the sidecar, metrics, and one
//! request.
//!
//! The logic is generic over these, so that every path of it runs in native tests against a scripted host. The real one
//! is `envoy`, the only file that names the SDK; it makes no decisions.

#[cfg(all(target_arch = "wasm32", not(test)))]
mod envoy;
#[cfg(test)]
pub mod fake;

use crate::headers::Headers;
use crate::metrics::Metric;
use crate::reply::Reply;

/// What a shared key holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The value; a key that was never set and one that was emptied both hold nothing.
    pub bytes: Vec<u8>,
    /// What to compare with when setting it.
    pub version: Version,
}

/// A version of a shared key, for compare-and-swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The key does not exist.
    #[default]
    Absent,
    /// It exists, and this is its version.
    At(u32),
}

/// Another writer was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

/// A call to the sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The path with its query.
    pub path: String,
    /// The body; JSON.
    pub body: Vec<u8>,
    /// After this the call has failed.
    pub timeout_ms: u64,
}

/// A call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub u32);

/// What came back for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The HTTP status.
    pub status: u16,
    /// Whether the sidecar itself answered, rather than Envoy in its name.
    pub from_sidecar: bool,
    /// The body.
    pub body: Vec<u8>,
}

/// How bad a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For those who look.
    Info,
    /// Someone should look.
    Warn,
}

/// What every part of the filter needs.
pub trait Host {
    /// Nanoseconds since 1970.
    fn now_ns(&self) -> u64;

    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    /// An unpredictable number.
    fn random(&self) -> u64;

    /// Reads a shared key.
    fn get(&self, key: &str) -> Stored;

    /// Sets a shared key, if it is still at that version.
    fn set(&self, key: &str, bytes: &[u8], version: Version) -> Result<(), Mismatch>;

    /// Sends a call to the sidecar; nothing where it cannot be sent at all.
    fn dispatch(&self, call: &Outgoing) -> Option<CallId>;

    /// Adds to a counter.
    fn count(&self, metric: Metric, by: u64);

    /// Sets a gauge or records into a histogram.
    fn record(&self, metric: Metric, value: u64);

    /// Writes a line for the operator. Never text of a prompt.
    fn log(&self, level: Level, line: &str);
}

/// What a request needs beside that.
pub trait StreamHost: Host {
    /// The request's headers.
    fn request_headers(&self) -> Headers;

    /// Replaces or removes a request header.
    fn set_request_header(&self, name: &str, value: Option<&[u8]>);

    /// The response's headers.
    fn response_headers(&self) -> Headers;

    /// A property of the stream or the connection.
    fn property(&self, path: &[&str]) -> Option<Vec<u8>>;

    /// Sets what the access log shows, and what another pass over the same request finds.
    fn note(&self, name: &str, value: &str);

    /// What `note` left, in this pass or an earlier one.
    fn noted(&self, name: &str) -> Option<Vec<u8>>;

    /// The request body that is held, from a byte on, up to `max` bytes.
    fn request_body(&self, start: usize, max: usize) -> Vec<u8>;

    /// The response bytes that pass just now.
    fn response_body(&self, size: usize) -> Vec<u8>;

    /// Answers the request instead of forwarding it.
    fn reply(&self, reply: &Reply);
}
