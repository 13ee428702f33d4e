//! Why a command failed, and the exit code that says so to a script.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::serve::ServeError;

/// What `--help` says about exit codes.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or a check of `doctor` or of `replay --expect` did
  2  the command line cannot be understood
  3  no token, or one that is not valid or not allowed to do this
  4  there is no such agent or token
  5  refused: a value is out of bounds, or the agent has changed meanwhile
  6  the server cannot be reached or does not answer";

/// What a command can fail with.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// No token was given.
    #[error("no token: set KILL_SWITCH_TOKEN, or --token-file to a file that holds one")]
    NoToken,
    /// The server said 401 or 403.
    #[error("{detail}")]
    Unauthorised {
        /// In the server's words.
        detail: String,
    },
    /// The server said 404.
    #[error("{detail}")]
    NotFound {
        /// In the server's words.
        detail: String,
    },
    /// The server said another 4xx.
    #[error("{detail}")]
    Refused {
        /// In the server's words.
        detail: String,
    },
    /// The server is not there, or something else is.
    #[error("{url}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What was found.
        reason: String,
    },
    /// The server answered with something that makes no sense.
    #[error("the server answered {status}: {detail}")]
    Server {
        /// The status.
        status: u16,
        /// What it said.
        detail: String,
    },
    /// A file cannot be read.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Nobody reads the output.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// A check of `doctor` failed; it has said which.
    #[error("{failed} of {checks} checks failed")]
    Unhealthy {
        /// How many.
        failed: usize,
        /// Of how many.
        checks: usize,
    },
    /// Lines of a recording cannot be read; they have been named.
    #[error("{lines} {} not be read", if *lines == 1 { "line could" } else { "lines could" })]
    BadLines {
        /// How many.
        lines: usize,
    },
    /// `replay --expect` found what it must not.
    #[error("not as expected: {healthy_killed} healthy killed, {loops_missed} loops missed")]
    NotAsExpected {
        /// Healthy runs that would have been killed.
        healthy_killed: usize,
        /// Loops that would have gone on.
        loops_missed: usize,
    },
    /// The server did not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl CliError {
    /// What a script sees.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Serve(_) | Self::File { .. } | Self::Output(_) | Self::Unhealthy { .. } => 1,
            Self::BadLines { .. } | Self::NotAsExpected { .. } => 1,
            Self::NoToken | Self::Unauthorised { .. } => 3,
            Self::NotFound { .. } => 4,
            Self::Refused { .. } => 5,
            Self::Unreachable { .. } | Self::Server { .. } => 6,
        })
    }
}
