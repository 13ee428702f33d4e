//! The log: text for people, JSON for machines, on standard error.

use clap::ValueEnum;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::ServeError;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging; does nothing if somebody did before.
pub(super) fn start(format: Format, levels: &str) -> Result<(), ServeError> {
    let filter: Targets = levels.parse().map_err(|_| ServeError::Log { given: levels.to_owned() })?;
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match format {
        Format::Text => layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        Format::Json => layer.json().boxed(),
    };
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    Ok(())
}
