//! The sidecar as a real process, which tests can stop, kill and restart at the same address with the same database.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::child::Child;
use super::find::{binary, free_address};
use super::wait::wait_until;

/// How long the sidecar may take to start or to end. This is long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The options of a sidecar.
#[derive(Clone, Debug)]
pub struct SidecarOptions {
    /// The path of the binary. The default is `KILL_SWITCH_BIN`, or `kill-switch` in cargo's target folder.
    pub binary: Option<PathBuf>,
    /// The arguments. `{listen}` is replaced by the sidecar's address, and `{folder}` by its folder.
    pub arguments: Vec<String>,
    /// Environment variables, with the same replacements.
    pub environment: Vec<(String, String)>,
    /// The path of the URL that returns 200 once the sidecar is ready.
    pub ready_path: String,
    /// The address on which it listens, or `None` for a free port.
    pub listen: Option<SocketAddr>,
}

impl Default for SidecarOptions {
    fn default() -> SidecarOptions {
        let arguments = ["serve", "--listen", "{listen}", "--db", "{folder}/kill-switch.db"];
        SidecarOptions {
            binary: None,
            arguments: arguments.map(str::to_owned).to_vec(),
            environment: Vec::new(),
            ready_path: "/readyz".to_owned(),
            listen: None,
        }
    }
}

/// A sidecar, running or stopped. When this value is dropped, the process is killed and its database is removed.
#[derive(Debug)]
pub struct Sidecar {
    child: Option<Child>,
    address: SocketAddr,
    options: SidecarOptions,
    folder: TempDir,
}

impl Sidecar {
    /// Starts a sidecar, and waits until it is ready.
    pub async fn start(options: SidecarOptions) -> Sidecar {
        let mut sidecar = Sidecar::stopped(options);
        sidecar.resume().await;
        sidecar
    }

    /// Creates a sidecar that does not run yet. It has an address already, so that Envoy can be configured with it.
    pub fn stopped(options: SidecarOptions) -> Sidecar {
        let folder = TempDir::with_prefix("lab-sidecar-").expect("the temporary folder can be written");
        Sidecar { child: None, address: options.listen.unwrap_or_else(free_address), options, folder }
    }

    /// Starts the process with the sidecar's address and database, and waits until it is ready.
    pub async fn resume(&mut self) {
        let path = self.options.binary.clone().unwrap_or_else(|| binary("kill-switch", "KILL_SWITCH_BIN"));
        let folder = self.folder.path().display().to_string();
        let fill = |text: &String| text.replace("{listen}", &self.address.to_string()).replace("{folder}", &folder);
        let mut command = Command::new(path);
        command.args(self.options.arguments.iter().map(fill)).current_dir(&folder);
        command.envs(self.options.environment.iter().map(|(name, value)| (name, fill(value))));
        let child =
            self.child.insert(Child::start("kill-switch", &mut command, &self.folder.path().join("sidecar.log")));
        let (http, url) = (crate::http::client(), format!("http://{}{}", self.address, self.options.ready_path));
        wait_until("the sidecar is ready", DEADLINE, || {
            if let Some(status) = child.ended() {
                panic!("the sidecar ended with {status}\n{}", child.tail());
            }
            let answer = http.get(&url).send();
            async { answer.await.is_ok_and(|answer| answer.status().is_success()) }
        })
        .await;
    }

    /// Ends the process gracefully (SIGTERM).
    pub async fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.terminate(DEADLINE).await;
        }
    }

    /// Kills the process at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        self.child = None;
    }

    /// Returns the process id, or `None` if the sidecar does not run.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the address on which the sidecar listens while it runs.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the log of all runs so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("sidecar.log")).unwrap_or_default()
    }

    /// Returns the folder with the database and the log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
