//! A real Envoy with its own folder, which contains its configuration, its log and its access log.
//!
//! Envoy chooses free ports itself. It writes the address of its admin endpoint to a file, and that endpoint lists the
//! addresses of the listeners. So any number of tests can run at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::child::Child;
use super::find::envoy_binary;
use super::wait::wait_until_some;

/// How long Envoy may take to start or to end. Compiling the module takes a second, and far longer on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running Envoy. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    admin: SocketAddr,
    listeners: BTreeMap<String, SocketAddr>,
    http: reqwest::Client,
    // This is the last field, so that the folder is removed after the process that writes to it has ended.
    folder: TempDir,
}

impl Envoy {
    /// Starts Envoy with this configuration and number of workers, and waits until it is ready. Panics with the last lines
    /// of the log if Envoy does not start.
    pub async fn start(yaml: &str, concurrency: u32) -> Envoy {
        Envoy::try_start(yaml, concurrency).await.unwrap_or_else(|log| panic!("Envoy did not start\n{log}"))
    }

    /// Like `start`, but returns an error with the last lines of the log if Envoy does not start.
    pub async fn try_start(yaml: &str, concurrency: u32) -> Result<Envoy, String> {
        // The filter logs at level info.
        Envoy::try_start_logging(yaml, concurrency, "info").await
    }

    /// Like `try_start`, with this level for what Envoy logs about the filter. With `trace` it logs every call of a function
    /// of the host and of the module.
    pub async fn try_start_logging(yaml: &str, concurrency: u32, wasm_log: &str) -> Result<Envoy, String> {
        let folder = TempDir::with_prefix("lab-envoy-").expect("the temporary folder can be written");
        let config = write_config(folder.path(), yaml);
        let mut command = Command::new(envoy_binary());
        command.current_dir(folder.path()).arg("--config-path").arg(config);
        command.args(["--concurrency", &concurrency.to_string(), "--log-level", "warning"]);
        // With hot restart, Envoys that run at the same time would depend on each other.
        command.args(["--component-log-level", &format!("wasm:{wasm_log}"), "--disable-hot-restart"]);
        command.args(["--admin-address-path", "admin", "--file-flush-interval-msec", "20"]);
        // Tests often stop an Envoy, and never need its connections to be drained.
        command.args(["--drain-time-s", "1", "--parent-shutdown-time-s", "2"]);
        let mut child = Child::start("envoy", &mut command, &folder.path().join("envoy.log"));
        let http = crate::http::client();
        let admin = ready(&mut child, &folder.path().join("admin"), &http).await?;
        let listeners = listeners(&http, admin).await;
        Ok(Envoy { child, admin, listeners, http, folder })
    }

    /// Checks a configuration with `envoy --mode validate`. The error is Envoy's output.
    pub fn validate(yaml: &str) -> Result<(), String> {
        Envoy::validate_with(yaml, &[])
    }

    /// Like `validate`, with these environment variables.
    pub fn validate_with(yaml: &str, environment: &[(&str, &str)]) -> Result<(), String> {
        let folder = TempDir::with_prefix("lab-envoy-").expect("the temporary folder can be written");
        let config = write_config(folder.path(), yaml);
        let mut command = Command::new(envoy_binary());
        command.current_dir(folder.path()).args(["--mode", "validate", "--log-level", "warning", "--config-path"]);
        command.arg(config).envs(environment.iter().copied());
        let output = command.output().unwrap_or_else(|error| panic!("cannot run Envoy: {error}"));
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// Returns the address of the first listener.
    pub fn address(&self) -> SocketAddr {
        *self.listeners.values().next().expect("the configuration has a listener")
    }

    /// Returns the address of the listener with this name.
    pub fn listener(&self, name: &str) -> SocketAddr {
        let found = self.listeners.get(name).copied();
        found.unwrap_or_else(|| panic!("no listener is named {name}: {:?}", self.listeners))
    }

    /// Returns [`Envoy::address`] as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Returns the address of the admin endpoint.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns all counters and gauges.
    pub async fn stats(&self) -> BTreeMap<String, u64> {
        let text = self.get("/stats").await;
        let pairs = text.lines().filter_map(|line| line.rsplit_once(": "));
        pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }

    /// Returns a counter or gauge, or 0 if Envoy has none with this name.
    pub async fn stat(&self, name: &str) -> u64 {
        self.stats().await.get(name).copied().unwrap_or(0)
    }

    /// Returns the statistics in the format of Prometheus.
    pub async fn prometheus(&self) -> String {
        self.get("/stats/prometheus").await
    }

    /// Sends a GET request to the admin endpoint, and returns the body.
    pub async fn get(&self, path: &str) -> String {
        self.ask(self.http.get(format!("http://{}{path}", self.admin))).await
    }

    /// Sends a POST request to the admin endpoint, which Envoy requires for changes, and returns the body.
    pub async fn post(&self, path: &str) -> String {
        self.ask(self.http.post(format!("http://{}{path}", self.admin))).await
    }

    /// Drains the listeners gracefully: requests that have begun continue, and new connections are refused.
    pub async fn drain(&self) {
        self.post("/drain_listeners?graceful").await;
    }

    /// Ends Envoy through its admin endpoint, and waits until it has ended.
    pub async fn quit(mut self) {
        self.post("/quitquitquit").await;
        self.child.wait_end(DEADLINE).await;
    }

    /// Kills the process at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Returns whether the process is still running.
    pub fn runs(&mut self) -> bool {
        self.child.ended().is_none()
    }

    /// Returns the process id, for example to read memory and CPU usage.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        self.child.log()
    }

    /// Returns the access log so far, one line per request. A line appears within 20 ms after its request has ended.
    pub fn access_log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the folder with `envoy.yaml`, `envoy.log` and `access.log`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> String {
        let text = async { request.send().await?.error_for_status()?.text().await };
        text.await.unwrap_or_else(|error| panic!("Envoy's admin endpoint: {error}\n{}", self.child.tail()))
    }
}

fn write_config(folder: &Path, yaml: &str) -> std::path::PathBuf {
    let path = folder.join("envoy.yaml");
    std::fs::write(&path, yaml).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    path
}

/// Waits until Envoy has written its admin address to `file` and the admin endpoint reports that Envoy is ready.
async fn ready(child: &mut Child, file: &Path, http: &reqwest::Client) -> Result<SocketAddr, String> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.ended() {
            return Err(format!("it ended with {status}\n{}", child.tail()));
        }
        if started.elapsed() > DEADLINE {
            return Err(format!("it was not ready within {DEADLINE:?}\n{}", child.tail()));
        }
        let admin = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        if let Some(admin) = admin {
            let answer = http.get(format!("http://{admin}/ready")).send().await;
            if answer.is_ok_and(|answer| answer.status() == 200) {
                return Ok(admin);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn listeners(http: &reqwest::Client, admin: SocketAddr) -> BTreeMap<String, SocketAddr> {
    let url = format!("http://{admin}/listeners?format=json");
    let look = || async {
        let answer: Value = http.get(&url).send().await.ok()?.json().await.ok()?;
        let all = answer["listener_statuses"].as_array()?;
        let pair = |one: &Value| {
            let socket = &one["local_address"]["socket_address"];
            let address = format!("{}:{}", socket["address"].as_str()?, socket["port_value"]);
            Some((one["name"].as_str()?.to_owned(), address.parse().ok()?))
        };
        all.iter().map(pair).collect::<Option<BTreeMap<_, _>>>().filter(|found| !found.is_empty())
    };
    wait_until_some("Envoy lists its listeners", DEADLINE, look).await
}
