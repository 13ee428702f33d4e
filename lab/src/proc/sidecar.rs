//! The sidecar as a real process, which tests stop, kill and bring back at the same address with the same database.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::child::Child;
use super::find::{binary, free_address};
use super::wait::wait_until;

/// How long it may take to start or to end. Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// How the sidecar is started.
#[derive(Clone, Debug)]
pub struct SidecarOptions {
    /// The binary; none: `KILL_SWITCH_BIN`, or `kill-switch` in cargo's folder.
    pub binary: Option<PathBuf>,
    /// Its arguments, in which `{listen}` and `{folder}` stand for its address and its folder.
    pub arguments: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// The path that answers 200 once it is ready.
    pub ready_path: String,
    /// Where it listens; none: a free port.
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

/// A sidecar, running or stopped. Killed when dropped; its database goes with it.
#[derive(Debug)]
pub struct Sidecar {
    child: Option<Child>,
    address: SocketAddr,
    options: SidecarOptions,
    folder: TempDir,
}

impl Sidecar {
    /// Starts one and waits until it is ready.
    pub async fn start(options: SidecarOptions) -> Sidecar {
        let mut sidecar = Sidecar::stopped(options);
        sidecar.resume().await;
        sidecar
    }

    /// One that has its address but does not run yet: Envoy can be told where it will be.
    pub fn stopped(options: SidecarOptions) -> Sidecar {
        let folder = TempDir::with_prefix("lab-sidecar-").expect("the temporary folder can be written");
        Sidecar { child: None, address: options.listen.unwrap_or_else(free_address), options, folder }
    }

    /// Starts it, again or for the first time, at its address and with its database; waits until it is ready.
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

    /// Ends it gracefully (SIGTERM).
    pub async fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.terminate(DEADLINE).await;
        }
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        self.child = None;
    }

    /// Where it listens, or will.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` and its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The log so far, of all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("sidecar.log")).unwrap_or_default()
    }

    /// Its folder: the database and the log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
