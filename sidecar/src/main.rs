//! The `kill-switch` binary: parses the command line, runs the command and sets the exit code.

use std::process::ExitCode;

use clap::Parser;
use kill_switch::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kill-switch: {error}");
            error.exit_code()
        }
    }
}
