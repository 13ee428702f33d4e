//! The binary: parse, run, exit. The only place where the process ends on purpose.

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
