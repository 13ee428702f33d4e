//! One child process: its log goes to a file, it is killed and reaped when the handle goes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use super::wait::wait_until_some;

/// How many lines of a log a failure shows.
const TAIL: usize = 40;

/// A running process.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts a command with its output going to `log`, appended so that a restart keeps what was there.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Child {
        let open = || File::options().create(true).append(true).open(log);
        let (out, err) = open()
            .and_then(|out| Ok((out, open()?)))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let process = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let process = process.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        Child { name: name.to_owned(), process, log: log.to_owned() }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        // Fails only where it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub async fn terminate(&mut self, deadline: Duration) -> ExitStatus {
        if self.ended().is_none() {
            // The standard library can only kill; the command spares a dependency for one call.
            let sent = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
            assert!(sent.is_ok_and(|sent| sent.success()), "cannot signal {}", self.name);
        }
        self.wait_end(deadline).await
    }

    /// Waits until it has ended by itself.
    pub async fn wait_end(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        wait_until_some(&what, deadline, || std::future::ready(self.ended())).await
    }

    /// All that it has written.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The end of the log, for messages.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL)..];
        format!("--- end of the log of {} ---\n{}\n---", self.name, tail.join("\n"))
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
