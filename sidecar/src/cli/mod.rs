//! The command line: the server, and the tools with which people talk to it.
//!
//! One file per command. Standard output receives only what the command was asked for. Warnings and errors go to standard
//! error, and the exit code tells scripts what went wrong.

use clap::{CommandFactory, Parser, Subcommand};

use crate::serve::{ServeOptions, serve};

mod agents;
mod alerts;
mod apply;
mod client;
mod compare;
mod doctor;
mod error;
mod events;
mod export;
mod fingerprint;
mod migrate;
mod output;
mod pause;
mod replay;
mod replay_report;
mod tokens;
mod why;

pub use error::CliError;

/// Stops AI agents that are stuck in loops: the sidecar and its tools
#[derive(Parser, Debug)]
#[command(name = "kill-switch", version, propagate_version = true, after_help = error::EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the sidecar
    Serve(Box<ServeOptions>),
    /// List, show, change, activate and deactivate agents, and let stopped conversations go on
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// List events, or follow them
    #[command(subcommand)]
    Events(events::EventsCommand),
    /// Tell the story of an agent's latest kill: the calls, what was refused since, who was told, and what can be done
    Why(why::WhyOptions),
    /// Create, list and delete alert rules, send test notices, and list what was delivered
    #[command(subcommand)]
    Alerts(alerts::AlertsCommand),
    /// Stop nothing for a while: loops are only recorded, at every Envoy
    Pause(pause::PauseOptions),
    /// End the pause: loops are stopped again
    Resume(pause::ResumeOptions),
    /// Apply a policy file: the settings of agents, and rules for agents that traffic creates
    Apply(apply::ApplyOptions),
    /// Print the policies in force as a policy file
    Export(export::ExportOptions),
    /// Make, list and revoke tokens
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// Carry a database over to another one, such as from SQLite to PostgreSQL
    Migrate(migrate::MigrateOptions),
    /// Show which recorded runs would have been killed, at which call, and why
    Replay(replay::ReplayOptions),
    /// Show a text as the detector sees it: normalised, and as a hash
    Fingerprint(fingerprint::FingerprintOptions),
    /// Show whether the detector takes two texts for similar, or for the same
    Compare(compare::CompareOptions),
    /// Check the database, the server, and the connection to Envoy
    Doctor(doctor::DoctorOptions),
    /// Print a completion script for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

impl Cli {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        match self.command {
            Command::Serve(options) => Ok(serve(*options).await?),
            Command::Agents(command) => command.run().await,
            Command::Events(command) => command.run().await,
            Command::Why(options) => options.run().await,
            Command::Alerts(command) => command.run().await,
            Command::Pause(options) => options.run().await,
            Command::Resume(options) => options.run().await,
            Command::Apply(options) => options.run().await,
            Command::Export(options) => options.run().await,
            Command::Tokens(command) => command.run().await,
            Command::Migrate(options) => options.run().await,
            Command::Replay(options) => options.run(),
            Command::Fingerprint(options) => options.run(),
            Command::Compare(options) => options.run(),
            Command::Doctor(options) => options.run().await,
            Command::Completion { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Self::command(), "kill-switch", &mut script);
                output::print(&String::from_utf8_lossy(&script))
            }
        }
    }
}
