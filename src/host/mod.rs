//! What the filter needs from its host: a clock, shared data, calls to the sidecar, metrics, and the request itself.
//!
//! The filter is generic over these traits, so that all of it runs in native tests against a scripted host, `fake`. The
//! real host is `envoy`, the only file that names the SDK. It makes no decisions.

#[cfg(all(target_arch = "wasm32", not(test)))]
mod envoy;
#[cfg(test)]
pub mod fake;

use crate::headers::Headers;
use crate::metrics::Metric;
use crate::reply::Reply;

/// The value of a key in shared data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedValue {
    /// The bytes. They are empty if the key was never set, and if it was emptied.
    pub bytes: Vec<u8>,
    /// The version to compare with when the key is set.
    pub version: Version,
}

/// The version of a key in shared data, for compare-and-swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The key does not exist.
    #[default]
    Absent,
    /// The key exists and has this version.
    At(u32),
}

/// Another worker has set the key since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

/// A call to the sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The path and query.
    pub path: String,
    /// The body, which is JSON.
    pub body: Vec<u8>,
    /// How long to wait before the call has failed.
    pub timeout_ms: u64,
}

/// Identifies a call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub u32);

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The HTTP status.
    pub status: u16,
    /// Whether the sidecar itself answered, rather than Envoy in its place.
    pub from_sidecar: bool,
    /// The body.
    pub body: Vec<u8>,
}

/// What every part of the filter needs from its host. Log lines go through the `log` crate.
pub trait Host {
    /// Returns the time in nanoseconds since 1970. Somebody may set the clock, so this is for people and for the sidecar,
    /// and deadlines are kept in [`steady_ms`](Self::steady_ms).
    fn now_ns(&self) -> u64;

    /// Returns the time in milliseconds since 1970.
    fn now_ms(&self) -> u64 {
        self.now_ns() / 1_000_000
    }

    /// Returns a time in milliseconds that neither jumps nor goes back when the clock is set. It is the same for all workers
    /// of an Envoy, and says nothing about the time of day.
    fn steady_ms(&self) -> u64 {
        self.now_ms()
    }

    /// Returns an unpredictable number.
    fn random(&self) -> u64;

    /// Reads a key of shared data.
    fn get(&self, key: &str) -> SharedValue;

    /// Sets a key of shared data if it still has this version.
    fn set(&self, key: &str, bytes: &[u8], version: Version) -> Result<(), Mismatch>;

    /// Sends a call to the sidecar. Returns `None` if it cannot be sent at all.
    fn dispatch(&self, call: &Outgoing) -> Option<CallId>;

    /// Adds to a counter.
    fn count(&self, metric: Metric, by: u64);

    /// Sets a gauge or records into a histogram.
    fn record(&self, metric: Metric, value: u64);
}

/// What a request needs in addition.
pub trait StreamHost: Host {
    /// Returns the request's headers.
    fn request_headers(&self) -> Headers;

    /// Replaces a request header, or removes it if there is no value.
    fn set_request_header(&self, name: &str, value: Option<&[u8]>);

    /// Returns the response's headers.
    fn response_headers(&self) -> Headers;

    /// Returns a property of the stream or the connection.
    fn property(&self, path: &[&str]) -> Option<Vec<u8>>;

    /// Sets a property, for the access log and for another pass over the same request.
    fn set_property(&self, name: &str, value: &str);

    /// Returns up to `max` bytes of the request body that is held, from `start` on.
    fn request_body(&self, start: usize, max: usize) -> Vec<u8>;

    /// Returns the bytes of the response that are passing.
    fn response_body(&self, size: usize) -> Vec<u8>;

    /// Answers the request instead of forwarding it.
    fn reply(&self, reply: &Reply);

    /// Ends the response at once: the client's stream is reset, and nothing more is read from the upstream. Returns false if
    /// the host does not allow it.
    fn reset_response(&self) -> bool;
}
