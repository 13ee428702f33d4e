//! The real binary, as a process of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

use super::Api;

/// The binary under test.
pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kill-switch"));
    // Nothing of the environment that the tests happen to run in.
    command.env_clear().stdin(Stdio::null());
    command
}

/// A process that is killed when dropped, so that a test that fails leaves nothing behind.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `kill-switch serve`, killed when dropped.
pub struct Process {
    pub child: Killed,
    pub api: Api,
    /// What it said before it listened.
    pub said: Vec<String>,
    /// Kept open: a process whose output is closed is another case.
    stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts in `dir` on a free port, with tokens in `dir/tokens`.
    pub fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::serve(dir, arguments, None)
    }

    pub fn start_in_new_dir(arguments: &[&str]) -> (TempDir, Self) {
        let dir = tempfile::tempdir().unwrap();
        let process = Self::start(dir.path(), arguments);
        (dir, process)
    }

    /// Starts a replica over a PostgreSQL database, with the rest of it in `dir`.
    pub fn replica(dir: &Path, url: &str, arguments: &[&str]) -> Self {
        Self::serve(dir, arguments, Some(url))
    }

    fn serve(dir: &Path, arguments: &[&str], database: Option<&str>) -> Self {
        let mut command = binary();
        command.args(["serve", "--listen", "127.0.0.1:0", "--token-dir", "tokens"]).args(arguments);
        command.envs(database.map(|url| ("KILL_SWITCH_DB", url))).current_dir(dir);
        // Many tests kill more agents within a minute than a real fleet would. Those about storms pass the option.
        command.env("KILL_SWITCH_STORM_KILLS", "0");
        let mut process = Self::spawn(&mut command);
        process.api.enforcer = token(dir, "enforcer");
        process.api.operator = token(dir, "operator");
        process
    }

    /// Starts in `dir` like [`Process::start`], with its log in `dir/log`.
    pub fn start_logging(dir: &Path, arguments: &[&str]) -> Self {
        let mut command = binary();
        command.args(["serve", "--listen", "127.0.0.1:0", "--token-dir", "tokens"]).args(arguments).current_dir(dir);
        let log = File::create(dir.join("log")).unwrap();
        let mut process = Self::spawn_with(&mut command, log.into());
        process.api.enforcer = token(dir, "enforcer");
        process.api.operator = token(dir, "operator");
        process
    }

    /// Starts a command and waits until it listens.
    pub fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, Stdio::null())
    }

    fn spawn_with(command: &mut Command, stderr: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child: Killed(child), api: Api::at(""), said: Vec::new(), stdout };
        process.api.base = loop {
            let mut line = String::new();
            assert_ne!(process.stdout.read_line(&mut line).unwrap(), 0, "it ended early: {:?}", process.said);
            match line.trim_end().strip_prefix("listening on ") {
                Some(base) => break base.to_owned(),
                None => process.said.push(line.trim_end().to_owned()),
            }
        };
        process
    }

    /// Ends it as a machine does when it loses power: no handler runs.
    pub fn kill_9(&mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        let id = self.child.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }
}

/// The token that `--token-dir tokens` left.
pub fn token(dir: &Path, scope: &str) -> String {
    std::fs::read_to_string(token_file(dir, scope)).unwrap().trim().to_owned()
}

pub fn token_file(dir: &Path, scope: &str) -> PathBuf {
    dir.join("tokens").join(format!("{scope}.token"))
}

/// Runs a command of the binary against a server as an operator.
pub fn cli(dir: &Path, api: &Api, arguments: &[&str]) -> Output {
    binary()
        .current_dir(dir)
        .env("KILL_SWITCH_SERVER", &api.base)
        .env("KILL_SWITCH_TOKEN", &api.operator)
        .args(arguments)
        .output()
        .unwrap()
}
