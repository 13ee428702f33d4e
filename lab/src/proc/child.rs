//! A child process. Its output goes to a log file, and it is killed and reaped when its handle is dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use super::wait::wait_until_some;

/// How many lines of the log are shown after a failure.
const TAIL: usize = 40;

/// A child process, which is killed when this handle is dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts a command and appends its output to `log`, so that a restart keeps the earlier output.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Child {
        let open = || File::options().create(true).append(true).open(log);
        let (out, err) = open()
            .and_then(|out| Ok((out, open()?)))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let process = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let process = process.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        Child { name: name.to_owned(), process, log: log.to_owned() }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns how the process ended, or `None` if it is still running.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Kills the process at once (SIGKILL), as a crash would, and waits until it has ended.
    pub fn kill(&mut self) {
        // This fails only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Asks the process to end (SIGTERM), and waits until it has ended.
    pub async fn terminate(&mut self, deadline: Duration) -> ExitStatus {
        if self.ended().is_none() {
            // The standard library can only send SIGKILL. One call does not justify a dependency.
            let sent = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
            assert!(sent.is_ok_and(|sent| sent.success()), "cannot signal {}", self.name);
        }
        self.wait_end(deadline).await
    }

    /// Waits until the process has ended.
    pub async fn wait_end(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        wait_until_some(&what, deadline, || std::future::ready(self.ended())).await
    }

    /// Returns everything that the process has written.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns the last lines of the log, for error messages.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL)..];
        format!("--- last lines of the log of {} ---\n{}\n---", self.name, tail.join("\n"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.tail());
        }
    }
}
