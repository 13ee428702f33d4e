//! The log, on standard error: text for people or JSON for machines.

use clap::ValueEnum;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::ServeError;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Readable text, one line per entry.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging. Does nothing if this process already logs.
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
