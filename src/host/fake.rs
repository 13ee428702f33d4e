//! A scripted host for tests: shared data in a map, a clock that the test sets, and a record of everything that was asked
//! of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

use super::{CallId, Host, Mismatch, Outgoing, SharedValue, StreamHost, Version};
use crate::headers::Headers;
use crate::metrics::Metric;
use crate::reply::Reply;

/// What another worker does between a read and a write.
pub type OtherWorker = Box<dyn FnOnce(&Fake)>;

/// The host of one worker and of the stream that it serves.
#[derive(Default)]
pub struct Fake {
    /// The time, in milliseconds since 1970.
    pub now_ms: Cell<u64>,
    /// The time that does not change when the clock is set.
    pub steady_ms: Cell<u64>,
    /// Shared data: value and version.
    pub shared: RefCell<BTreeMap<String, (Vec<u8>, u32)>>,
    /// How often shared data was read and written.
    pub accesses: Cell<(u32, u32)>,
    /// Calls to the sidecar, in order.
    pub calls: RefCell<Vec<Outgoing>>,
    /// Whether sending a call fails.
    pub unreachable: Cell<bool>,
    /// Runs once, right before the next write, like another worker that is faster.
    pub before_set: RefCell<Option<OtherWorker>>,
    /// What was counted and recorded.
    pub metrics: RefCell<HashMap<Metric, u64>>,
    /// The request's headers.
    pub request: RefCell<Vec<(String, Vec<u8>)>>,
    /// The request's body.
    pub body: RefCell<Vec<u8>>,
    /// How many bytes of it were asked for.
    pub fetched: Cell<usize>,
    /// The response's headers.
    pub response: RefCell<Vec<(String, Vec<u8>)>>,
    /// The bytes of the response that are passing.
    pub chunk: RefCell<Vec<u8>>,
    /// Properties, by their path joined with dots.
    pub properties: RefCell<HashMap<String, Vec<u8>>>,
    /// The replies that were sent.
    pub replies: RefCell<Vec<Reply>>,
    /// How often the response was reset.
    pub resets: Cell<u32>,
    /// Whether resetting fails.
    pub forbids_resets: Cell<bool>,
    random: Cell<u64>,
}

impl Fake {
    /// Creates a host whose clock is well after 1970. Starts a new record of log lines.
    pub fn new() -> Self {
        logged::start();
        let host = Self::default();
        host.now_ms.set(1_700_000_000_000);
        host.steady_ms.set(5_000_000);
        host
    }

    /// Returns how often something was counted, or the last value that was recorded.
    pub fn metric(&self, metric: Metric) -> u64 {
        self.metrics.borrow().get(&metric).copied().unwrap_or(0)
    }

    /// Lets time pass.
    pub fn wait(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
        self.steady_ms.set(self.steady_ms.get() + ms);
    }

    /// Sets the clock to another time.
    pub fn set_clock(&self, by_ms: i64) {
        self.now_ms.set(self.now_ms.get().saturating_add_signed(by_ms));
    }

    /// Returns the lines logged on this thread since the host was created.
    pub fn lines(&self) -> Vec<String> {
        logged::lines()
    }

    /// Sets a key of shared data, as another worker would.
    pub fn overwrite(&self, key: &str, bytes: Vec<u8>) {
        let mut shared = self.shared.borrow_mut();
        let version = shared.get(key).map_or(0, |(_, version)| *version);
        shared.insert(key.to_owned(), (bytes, version + 1));
    }
}

fn all(headers: &RefCell<Vec<(String, Vec<u8>)>>) -> Headers {
    Headers::new(Headers::encode(headers.borrow().iter().map(|(name, value)| (name.as_str(), value.as_slice()))))
}

impl Host for Fake {
    fn now_ns(&self) -> u64 {
        self.now_ms.get() * 1_000_000
    }

    fn steady_ms(&self) -> u64 {
        self.steady_ms.get()
    }

    fn random(&self) -> u64 {
        self.random.set(self.random.get() + 1);
        crate::fingerprint::hash::mix(self.random.get())
    }

    fn get(&self, key: &str) -> SharedValue {
        let (reads, writes) = self.accesses.get();
        self.accesses.set((reads + 1, writes));
        match self.shared.borrow().get(key) {
            Some((bytes, version)) => SharedValue { bytes: bytes.clone(), version: Version::At(*version) },
            None => SharedValue::default(),
        }
    }

    fn set(&self, key: &str, bytes: &[u8], version: Version) -> Result<(), Mismatch> {
        let other = self.before_set.borrow_mut().take();
        if let Some(other) = other {
            other(self);
        }
        let (reads, writes) = self.accesses.get();
        self.accesses.set((reads, writes + 1));
        let held = self.shared.borrow().get(key).map_or(Version::Absent, |(_, version)| Version::At(*version));
        if held != version {
            return Err(Mismatch);
        }
        let next = match version {
            Version::Absent => 1,
            Version::At(version) => version + 1,
        };
        self.shared.borrow_mut().insert(key.to_owned(), (bytes.to_vec(), next));
        Ok(())
    }

    fn dispatch(&self, call: &Outgoing) -> Option<CallId> {
        if self.unreachable.get() {
            return None;
        }
        self.calls.borrow_mut().push(call.clone());
        Some(CallId(self.calls.borrow().len() as u32))
    }

    fn count(&self, metric: Metric, by: u64) {
        *self.metrics.borrow_mut().entry(metric).or_default() += by;
    }

    fn record(&self, metric: Metric, value: u64) {
        self.metrics.borrow_mut().insert(metric, value);
    }
}

impl StreamHost for Fake {
    fn request_headers(&self) -> Headers {
        all(&self.request)
    }

    fn set_request_header(&self, name: &str, value: Option<&[u8]>) {
        let mut headers = self.request.borrow_mut();
        headers.retain(|(known, _)| known != name);
        headers.extend(value.map(|value| (name.to_owned(), value.to_vec())));
    }

    fn response_headers(&self) -> Headers {
        all(&self.response)
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        self.properties.borrow().get(&path.join(".")).cloned()
    }

    fn set_property(&self, name: &str, value: &str) {
        self.properties.borrow_mut().insert(name.to_owned(), value.as_bytes().to_vec());
    }

    fn request_body(&self, start: usize, max: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.body.borrow().iter().skip(start).take(max).copied().collect();
        self.fetched.set(self.fetched.get() + bytes.len());
        bytes
    }

    fn response_body(&self, size: usize) -> Vec<u8> {
        self.chunk.borrow().iter().take(size).copied().collect()
    }

    fn reply(&self, reply: &Reply) {
        self.replies.borrow_mut().push(reply.clone());
    }

    fn reset_response(&self) -> bool {
        self.resets.set(self.resets.get() + 1);
        !self.forbids_resets.get()
    }
}

/// A logger that keeps the lines of each thread, since tests run on threads of their own.
mod logged {
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    struct Logger;

    impl log::Log for Logger {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
        }

        fn flush(&self) {}
    }

    pub fn start() {
        // Fails if another test was first, which has then set the same logger.
        let _ = log::set_logger(&Logger);
        log::set_max_level(log::LevelFilter::Info);
        LINES.take();
    }

    pub fn lines() -> Vec<String> {
        LINES.with_borrow(Clone::clone)
    }
}
