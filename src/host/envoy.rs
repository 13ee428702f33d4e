//! The real host: Envoy, through the proxy-wasm SDK. This is the only file that names the SDK, and it makes no decisions.
//!
//! Only functions that return bytes are used, because the SDK's string functions panic on invalid UTF-8. Every error is
//! taken to mean that the value is absent. Headers are read only in their own phase, because the SDK panics elsewhere.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, BufferType, ContextType, LogLevel, MapType, MetricType};

use super::{CallId, Host, Incoming, Mismatch, Outgoing, SharedValue, StreamHost, Version};
use crate::config::Config;
use crate::headers::Headers;
use crate::link::{Link, TICK_MS};
use crate::metrics::{self, Kind, Metric};
use crate::printable::printable;
use crate::reply::Reply;
use crate::stream::{CALL_PROPERTY, Flow, Stream};
use crate::worker::Worker;

proxy_wasm::main! {{
    start_log();
    proxy_wasm::set_root_context(|_| Box::new(EnvoyRoot::default()));
}}

/// Writes to Envoy's log. Takes the place of the SDK's own logger, which passes on whatever a client put into a name.
struct EnvoyLog;

impl log::Log for EnvoyLog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = match record.level() {
            log::Level::Error => LogLevel::Error,
            log::Level::Warn => LogLevel::Warn,
            _ => LogLevel::Info,
        };
        let _ = hostcalls::log(level, &printable(&record.args().to_string()));
    }

    fn flush(&self) {}
}

fn start_log() {
    // Fails if the logger is set already, which is then this one.
    let _ = log::set_logger(&EnvoyLog);
    log::set_max_level(log::LevelFilter::Info);
    std::panic::set_hook(Box::new(|panic| {
        let _ = hostcalls::log(LogLevel::Critical, &panic.to_string());
    }));
}

/// The header that marks the sidecar's own answers. Envoy's answers in its place do not have it.
const MARKER_HEADER: &str = "x-kill-switch";

/// Envoy, as seen from one worker.
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
        fast::now_ns()
    }

    fn steady_ns(&self) -> u64 {
        fast::steady_ns().unwrap_or_else(fast::now_ns)
    }

    fn random(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }

    fn get(&self, key: &str) -> SharedValue {
        match hostcalls::get_shared_data(key) {
            Ok((bytes, cas)) => {
                SharedValue { bytes: bytes.unwrap_or_default(), version: cas.map_or(Version::Absent, Version::At) }
            }
            Err(_) => SharedValue::default(),
        }
    }

    fn set(&self, key: &str, bytes: &[u8], version: Version) -> Result<(), Mismatch> {
        // The host ignores the version of an absent key. This version means "only if the key is absent".
        const ONLY_IF_ABSENT: u32 = u32::MAX;
        let cas = match version {
            Version::Absent => ONLY_IF_ABSENT,
            Version::At(cas) => cas,
        };
        hostcalls::set_shared_data(key, Some(bytes), Some(cas)).map_err(|_| Mismatch)
    }

    #[inline(never)] // so that it is compiled once
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

    fn set_property(&self, name: &str, value: &str) {
        fast::set_property(name, value);
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

    fn reset_response(&self) -> bool {
        fast::reset_response()
    }
}

/// The root context. There is one in each worker and one on the main thread.
#[derive(Default)]
struct EnvoyRoot {
    envoy: Rc<Envoy>,
    running: Option<(Rc<Worker>, Link)>,
}

impl EnvoyRoot {
    fn start(&mut self, config: Config) {
        let node = hostcalls::get_property(vec!["xds", "node", "id"]).ok().flatten();
        let node = node.map(|id| String::from_utf8_lossy(&id).into_owned()).filter(|id| !id.is_empty());
        let name = config.envoy_name.clone().or(node).unwrap_or_else(|| "envoy".to_owned());
        self.envoy = Rc::new(Envoy::new(&config));
        let worker = Rc::new(Worker::new(config, name));
        let link = Link::new(Rc::clone(&worker), &*self.envoy);
        self.running = Some((worker, link));
        declare_call_property();
        let _ = hostcalls::set_tick_period(Duration::from_millis(TICK_MS));
    }
}

impl Context for EnvoyRoot {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body: usize, _: usize) {
        let Some((_, link)) = &mut self.running else { return };
        let header = |name| hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, name).ok().flatten();
        // Without headers the call was cut off, and asking for one would panic.
        let answer = (headers > 0).then(|| {
            let status = header(":status").and_then(|status| String::from_utf8(status).ok()?.parse().ok());
            let bytes = hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, body).ok().flatten();
            Incoming {
                status: status.unwrap_or(0),
                from_sidecar: header(MARKER_HEADER).is_some(),
                body: bytes.unwrap_or_default(),
            }
        });
        link.response(&*self.envoy, CallId(token), answer);
    }
}

impl RootContext for EnvoyRoot {
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size).ok().flatten().unwrap_or_default();
        match Config::parse(&bytes, &|name| std::env::var(name).ok()) {
            Ok(config) => {
                self.start(config);
                log::info!("agent kill switch {} is ready", env!("CARGO_PKG_VERSION"));
                true
            }
            Err(error) => {
                log::error!("agent kill switch: the configuration: {error}");
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some((_, link)) = &mut self.running {
            link.tick(&*self.envoy);
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

/// Makes the property of a scored call live as long as the request, so that the pass after an internal redirect finds it.
/// The arguments are a protobuf message: 1 = name, 3 = type (1, a string), 5 = life span (1, the request).
fn declare_call_property() {
    let mut arguments = vec![0x0A, CALL_PROPERTY.len() as u8];
    arguments.extend_from_slice(CALL_PROPERTY.as_bytes());
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
        action(self.stream.response_body(&*self.envoy, size, ended))
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        action(self.stream.response_trailers(&*self.envoy))
    }

    fn on_log(&mut self) {
        self.stream.closed(&*self.envoy);
    }
}

/// Host functions without the conversions and panics of the SDK's versions.
mod fast {
    #![allow(unsafe_code)] // declares and calls four functions of the host's documented interface

    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
    }

    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
        fn proxy_close_stream(stream_type: u32) -> u32;
        fn proxy_set_property(path: *const u8, path_len: usize, value: *const u8, value_len: usize) -> u32;
    }

    /// Returns the time in nanoseconds since 1970.
    pub fn now_ns() -> u64 {
        let mut time = 0;
        // SAFETY: the host writes to the pointer, which points to this stack. It always succeeds.
        unsafe { proxy_get_current_time_nanoseconds(&raw mut time) };
        time
    }

    /// Returns the time of Envoy's monotonic clock in nanoseconds, or `None` if Envoy does not let the module have it.
    pub fn steady_ns() -> Option<u64> {
        const MONOTONIC: u32 = 1;
        let mut time = 0;
        // SAFETY: the host writes to the pointer, which points to this stack.
        let error = unsafe { clock_time_get(MONOTONIC, 0, &raw mut time) };
        (error == 0).then_some(time)
    }

    /// Resets the stream of the response. Envoy does so when this callback has returned. Returns false if the configuration
    /// does not let the module do so.
    pub fn reset_response() -> bool {
        const HTTP_RESPONSE: u32 = 1;
        // SAFETY: no pointers are passed.
        unsafe { proxy_close_stream(HTTP_RESPONSE) == 0 }
    }

    /// Sets a property whose path is a single name.
    pub fn set_property(name: &str, value: &str) {
        // SAFETY: every pointer is passed with the length of its text, and the host copies what it keeps.
        unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
    }
}

/// Reads all headers in one call and one allocation. The SDK's function makes two allocations for each header.
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
        // SAFETY: the host writes to the two pointers, which point to this stack.
        let status = unsafe { proxy_get_header_map_pairs(map as u32, &raw mut data, &raw mut len) };
        if status != 0 || data.is_null() {
            return Headers::default();
        }
        // SAFETY: the host let this module allocate `len` bytes, filled them, and passes ownership back. The SDK's
        // allocation function creates a `Vec` of that capacity, so a `Vec` may take them over.
        Headers::new(unsafe { Vec::from_raw_parts(data, len, len) })
    }
}

/// Sends a reply with a reason for `%RESPONSE_CODE_DETAILS%`, which the SDK's function does not pass on.
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

    /// Makes Envoy derive the grpc-status from the HTTP status.
    const NO_GRPC_STATUS: i32 = -1;

    pub fn send(reply: &Reply) {
        let headers = Headers::encode(reply.headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        // SAFETY: every pointer is passed with the length of its slice, and the host copies what it keeps.
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
