//! The real host: Envoy, through the proxy-wasm SDK. The only file that names it, and it makes no decisions.
//!
//! Only functions that return bytes are used, since the SDK's string ones panic on what is not UTF-8, and every error is
//! taken as "nothing there". Headers are read in their own phase only: elsewhere the SDK panics.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, BufferType, ContextType, LogLevel, MapType, MetricType};

use super::{CallId, Host, Incoming, Level, Mismatch, Outgoing, Stored, StreamHost, Version};
use crate::config::Config;
use crate::headers::Headers;
use crate::link::sync::{Root, TICK_MS};
use crate::metrics::{self, Kind, Metric};
use crate::reply::Reply;
use crate::stream::{CALL_NOTE, Flow, Stream};
use crate::worker::Worker;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(EnvoyRoot::default()));
}}

/// The header by which the sidecar's own answers are told from those that Envoy makes in its name.
const MARKER: &str = "x-kill-switch";

/// Envoy as seen from one worker.
#[derive(Clone, Default)]
struct Envoy {
    cluster: String,
    authority: String,
    bearer: Option<String>,
    metrics: Vec<u32>,
}

impl Envoy {
    fn new(config: &Config) -> Self {
        let define = |(_, name, kind)| {
            let kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            hostcalls::define_metric(kind, name).unwrap_or(0)
        };
        Self {
            cluster: config.cluster.clone(),
            authority: config.authority.clone(),
            bearer: config.token.as_ref().map(|token| token.bearer()),
            metrics: metrics::all().map(define).collect(),
        }
    }

    fn metric(&self, metric: Metric) -> u32 {
        self.metrics.get(metric.index()).copied().unwrap_or(0)
    }
}

impl Host for Envoy {
    fn now_ns(&self) -> u64 {
        plain::now_ns()
    }

    fn random(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }

    fn get(&self, key: &str) -> Stored {
        match hostcalls::get_shared_data(key) {
            Ok((bytes, cas)) => {
                Stored { bytes: bytes.unwrap_or_default(), version: cas.map_or(Version::Absent, Version::At) }
            }
            Err(_) => Stored::default(),
        }
    }

    fn set(&self, key: &str, bytes: &[u8], version: Version) -> Result<(), Mismatch> {
        // The host ignores the version of an absent key; this one means "only if absent".
        const ONLY_IF_ABSENT: u32 = u32::MAX;
        let cas = match version {
            Version::Absent => ONLY_IF_ABSENT,
            Version::At(cas) => cas,
        };
        hostcalls::set_shared_data(key, Some(bytes), Some(cas)).map_err(|_| Mismatch)
    }

    fn dispatch(&self, call: &Outgoing) -> Option<CallId> {
        let mut headers = vec![
            (":method", call.method),
            (":path", call.path.as_str()),
            (":authority", self.authority.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json"),
        ];
        if let Some(bearer) = &self.bearer {
            headers.push(("authorization", bearer));
        }
        let body = (!call.body.is_empty()).then_some(call.body.as_slice());
        let timeout = Duration::from_millis(call.timeout_ms);
        hostcalls::dispatch_http_call(&self.cluster, headers, body, Vec::new(), timeout).ok().map(CallId)
    }

    fn count(&self, metric: Metric, by: u64) {
        let _ = hostcalls::increment_metric(self.metric(metric), by as i64);
    }

    fn record(&self, metric: Metric, value: u64) {
        let _ = hostcalls::record_metric(self.metric(metric), value);
    }

    fn log(&self, level: Level, line: &str) {
        log(level, line);
    }
}

impl StreamHost for Envoy {
    fn request_headers(&self) -> Headers {
        pairs::read(MapType::HttpRequestHeaders)
    }

    fn set_request_header(&self, name: &str, value: Option<&[u8]>) {
        let _ = hostcalls::set_map_value_bytes(MapType::HttpRequestHeaders, name, value);
    }

    fn response_headers(&self) -> Headers {
        pairs::read(MapType::HttpResponseHeaders)
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        hostcalls::get_property(path.to_vec()).ok().flatten()
    }

    fn note(&self, name: &str, value: &str) {
        plain::set_property(name, value);
    }

    fn noted(&self, name: &str) -> Option<Vec<u8>> {
        self.property(&[name])
    }

    fn request_body(&self, start: usize, max: usize) -> Vec<u8> {
        hostcalls::get_buffer(BufferType::HttpRequestBody, start, max).ok().flatten().unwrap_or_default()
    }

    fn response_body(&self, size: usize) -> Vec<u8> {
        hostcalls::get_buffer(BufferType::HttpResponseBody, 0, size).ok().flatten().unwrap_or_default()
    }

    fn reply(&self, reply: &Reply) {
        local_reply::send(reply);
    }
}

fn log(level: Level, line: &str) {
    let level = match level {
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
    };
    let _ = hostcalls::log(level, line);
}

/// The root: one in each worker and one on the main thread.
#[derive(Default)]
struct EnvoyRoot {
    envoy: Rc<Envoy>,
    running: Option<(Rc<Worker>, Root)>,
}

impl EnvoyRoot {
    fn start(&mut self, config: Config) {
        let node = hostcalls::get_property(vec!["node", "id"]).ok().flatten();
        let node = node.map(|id| String::from_utf8_lossy(&id).into_owned()).filter(|id| !id.is_empty());
        let name = config.envoy_name.clone().or(node).unwrap_or_else(|| "envoy".to_owned());
        self.envoy = Rc::new(Envoy::new(&config));
        let worker = Rc::new(Worker::new(config, name));
        let root = Root::new(Rc::clone(&worker), &*self.envoy);
        self.running = Some((worker, root));
        declare_call_note();
        let _ = hostcalls::set_tick_period(Duration::from_millis(TICK_MS));
    }
}

impl Context for EnvoyRoot {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body: usize, _: usize) {
        let Some((_, root)) = &mut self.running else { return };
        let header = |name| hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, name).ok().flatten();
        // No headers: the call was cut off, and asking for any would panic.
        let answer = (headers > 0).then(|| {
            let status = header(":status").and_then(|status| String::from_utf8(status).ok()?.parse().ok());
            let bytes = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, body).ok().flatten();
            Incoming {
                status: status.unwrap_or(0),
                from_sidecar: header(MARKER).is_some(),
                body: bytes.unwrap_or_default(),
            }
        });
        root.response(&*self.envoy, CallId(token), answer);
    }
}

impl RootContext for EnvoyRoot {
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size).ok().flatten().unwrap_or_default();
        match Config::parse(&bytes, &|name| std::env::var(name).ok()) {
            Ok(config) => {
                self.start(config);
                log(Level::Info, concat!("agent kill switch ", env!("CARGO_PKG_VERSION"), " is ready"));
                true
            }
            Err(error) => {
                let _ = hostcalls::log(LogLevel::Error, &format!("agent kill switch: the configuration: {error}"));
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some((_, root)) = &mut self.running {
            root.tick(&*self.envoy);
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        let (worker, _) = self.running.as_ref()?;
        Some(Box::new(EnvoyStream { envoy: Rc::clone(&self.envoy), stream: Stream::new(Rc::clone(worker)) }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

/// Makes the note of a judged call live as long as the request, so that the pass after an internal redirect finds it.
/// The arguments are a protobuf message: 1 = name, 3 = type (1, a string), 5 = life span (1, the request).
fn declare_call_note() {
    let mut arguments = vec![0x0A, CALL_NOTE.len() as u8];
    arguments.extend_from_slice(CALL_NOTE.as_bytes());
    arguments.extend_from_slice(&[0x18, 1, 0x28, 1]);
    let _ = hostcalls::call_foreign_function("declare_property", Some(&arguments));
}

/// One request.
struct EnvoyStream {
    envoy: Rc<Envoy>,
    stream: Stream,
}

fn action(flow: Flow) -> Action {
    match flow {
        Flow::Continue => Action::Continue,
        Flow::Hold => Action::Pause,
    }
}

impl Context for EnvoyStream {}

impl HttpContext for EnvoyStream {
    fn on_http_request_headers(&mut self, _: usize, ended: bool) -> Action {
        #[cfg(feature = "trap")]
        if self.envoy.request_headers().get("x-trap").is_some() {
            std::process::abort();
        }
        action(self.stream.request_headers(&*self.envoy, ended))
    }

    fn on_http_request_body(&mut self, size: usize, ended: bool) -> Action {
        action(self.stream.request_body(&*self.envoy, size, ended))
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        action(self.stream.request_trailers(&*self.envoy))
    }

    fn on_http_response_headers(&mut self, _: usize, ended: bool) -> Action {
        self.stream.response_headers(&*self.envoy, ended);
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, ended: bool) -> Action {
        self.stream.response_body(&*self.envoy, size, ended);
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        self.stream.response_end(&*self.envoy);
        Action::Continue
    }
}

/// What every request asks, without what the SDK makes of it: dates, lists of names, panics.
mod plain {
    #![allow(unsafe_code)] // declares and calls two functions of the host's documented interface

    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
        fn proxy_set_property(path: *const u8, path_len: usize, value: *const u8, value_len: usize) -> u32;
    }

    /// Nanoseconds since 1970.
    pub fn now_ns() -> u64 {
        let mut time = 0;
        // SAFETY: the host writes where the pointer points, which is on this stack. It has no other status than success.
        unsafe { proxy_get_current_time_nanoseconds(&raw mut time) };
        time
    }

    /// Sets a property whose path is one name.
    pub fn set_property(name: &str, value: &str) {
        // SAFETY: every pointer goes with the length of the text it comes from, and the host copies what it keeps.
        unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
    }
}

/// All headers in one call and one allocation, where the SDK's function makes two for each header.
mod pairs {
    #![allow(unsafe_code)] // declares and calls one function of the host's documented interface

    use proxy_wasm::types::MapType;

    use crate::headers::Headers;

    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, len: *mut usize) -> u32;
    }

    pub fn read(map: MapType) -> Headers {
        let (mut data, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: the host writes where the two pointers point, which is on this stack.
        let status = unsafe { proxy_get_header_map_pairs(map as u32, &raw mut data, &raw mut len) };
        if status != 0 || data.is_null() {
            return Headers::default();
        }
        // SAFETY: the host had this module allocate `len` bytes, filled them, and gives them away. The SDK's allocation
        // function makes a `Vec` of that capacity, so that this is what it is given back as.
        Headers::new(unsafe { Vec::from_raw_parts(data, len, len) })
    }
}

/// A reply with a reason for `%RESPONSE_CODE_DETAILS%`, which the SDK's function does not pass on.
mod local_reply {
    #![allow(unsafe_code)] // declares and calls one function of the host's documented interface

    use crate::headers::Headers;
    use crate::reply::Reply;

    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        fn proxy_send_local_response(
            status: u32,
            details: *const u8,
            details_len: usize,
            body: *const u8,
            body_len: usize,
            headers: *const u8,
            headers_len: usize,
            grpc_status: i32,
        ) -> u32;
    }

    /// Lets Envoy derive the grpc-status from the HTTP status.
    const NO_GRPC_STATUS: i32 = -1;

    pub fn send(reply: &Reply) {
        let headers = Headers::encode(reply.headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        // SAFETY: every pointer goes with the length of the slice it comes from, and the host copies what it keeps.
        unsafe {
            proxy_send_local_response(
                u32::from(reply.status),
                reply.details.as_ptr(),
                reply.details.len(),
                reply.body.as_ptr(),
                reply.body.len(),
                headers.as_ptr(),
                headers.len(),
                NO_GRPC_STATUS,
            );
        }
    }
}
