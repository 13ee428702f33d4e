//! The log, on standard error: text for people or JSON for machines.

use std::fmt::Debug;

use agent_kill_switch::printable::printable;
use clap::ValueEnum;
use tracing::field::Field;
use tracing_subscriber::Layer as _;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
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

/// Formats the fields of an entry as `name=value`. Text from outside cannot begin a new line or control the terminal.
fn printable_fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        let value = printable(&format!("{value:?}"));
        match field.name() {
            "message" => writer.write_str(&value),
            name => write!(writer, "{name}={value}"),
        }
    };
    debug_fn(write).delimited(" ")
}

/// Starts logging. Does nothing if this process already logs.
pub(super) fn start(format: Format, levels: &str) -> Result<(), ServeError> {
    let filter: Targets = levels.parse().map_err(|_| ServeError::Log { given: levels.to_owned() })?;
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match format {
        Format::Text => {
            layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).fmt_fields(printable_fields()).boxed()
        }
        Format::Json => layer.json().boxed(),
    };
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn text_from_outside_cannot_forge_an_entry() {
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_ansi(false);
        let subscriber = tracing_subscriber::registry().with(layer.fmt_fields(printable_fields()));
        tracing::subscriber::with_default(subscriber, || {
            let reason = "grep\n2024-01-15T10:30:00Z ERROR kill_switch: forged\u{1b}[2J\u{202e}";
            tracing::warn!(%reason, tool = reason, count = 3, "agent {reason} was stopped");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("agent grep\u{FFFD}2024") && text.contains(" reason=grep\u{FFFD}2024"), "{text}");
        assert!(text.contains("count=3") && text.ends_with('\n'), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    }
}
