//! Why a command failed, and the exit code that tells a script.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::serve::ServeError;

/// What `--help` says about exit codes.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure, also of a check of `doctor` or of `replay --expect`
  2  the command line cannot be understood
  3  no token, or one that is not valid or not allowed to do this
  4  there is no such agent, stopped conversation, token, alert rule or policy file
  5  refused: a value is out of bounds, or the agent has changed in the meantime
  6  the server cannot be reached, or its answer makes no sense
  7  `apply --dry-run` found differences";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// No token was given.
    #[error("no token: set KILL_SWITCH_TOKEN, or --token-file to a file that holds one")]
    NoToken,
    /// The server answered 401 or 403, with this explanation.
    #[error("{0}")]
    Unauthorised(String),
    /// The server answered 404, with this explanation.
    #[error("{0}")]
    NotFound(String),
    /// A value was refused, here or by the server, which answered with another 4xx.
    #[error("{0}")]
    Refused(String),
    /// The server cannot be reached, or what answers is not a kill-switch server.
    #[error("{url}: {reason}")]
    Unreachable {
        /// The server's address.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The server answered with a status that is neither a success nor a refusal.
    #[error("the server answered {status}: {detail}")]
    Server {
        /// The status.
        status: u16,
        /// The explanation in the answer.
        detail: String,
    },
    /// A file cannot be read.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// Checks of `doctor` failed. Its output has named them.
    #[error("{failed} of {checks} checks failed")]
    Unhealthy {
        /// The number of checks that failed.
        failed: usize,
        /// The number of all checks.
        checks: usize,
    },
    /// Lines of a recording cannot be read. They have been named on standard error.
    #[error("{lines} {} not be read", if *lines == 1 { "line could" } else { "lines could" })]
    BadLines {
        /// The number of lines.
        lines: usize,
    },
    /// A run of `replay --expect` did not end as its recording expects.
    #[error("not as expected: {healthy_killed} healthy killed, {loops_missed} loops missed")]
    NotAsExpected {
        /// Healthy runs that would have been killed.
        healthy_killed: usize,
        /// Loops that would not have been killed.
        loops_missed: usize,
    },
    /// `apply --dry-run` found differences. Its output has shown them.
    #[error("there are differences; without --dry-run they are applied")]
    Differences,
    /// The server did not start, or a database cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl CliError {
    /// A file cannot be read because of `error`.
    pub(super) fn file(path: &Path, error: impl ToString) -> Self {
        Self::File { path: path.to_owned(), reason: error.to_string() }
    }

    /// Returns the exit code, as [`EXIT_CODES`] describes it.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Serve(_) | Self::File { .. } | Self::Output(_) | Self::Unhealthy { .. } => 1,
            Self::BadLines { .. } | Self::NotAsExpected { .. } => 1,
            Self::NoToken | Self::Unauthorised(_) => 3,
            Self::NotFound(_) => 4,
            Self::Refused(_) => 5,
            Self::Unreachable { .. } | Self::Server { .. } => 6,
            Self::Differences => 7,
        })
    }
}
