//! What commands print: tables for people, JSON for programs.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::CliError;

/// How the outcome is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns.
    Table,
    /// The API's own JSON.
    Json,
}

/// The option that chooses it.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Output {
    /// How to print the outcome
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, global = true)]
    pub(super) format: Format,
}

/// Prints; a reader that went away, as `head` does, is reported and not panicked at.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Prints a value as JSON, for people who read JSON.
pub(super) fn print_json(value: &Value) -> Result<(), CliError> {
    print(&format!("{value:#}\n"))
}

/// Rows under a heading, in columns.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(&heading.map(str::to_owned));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

/// A member of an object as a cell: no quotes, nothing for null, and nothing that would move the cursor.
pub(super) fn cell(object: &Value, member: &str) -> String {
    let text = match object.get(member) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    inert(&text)
}

/// Somebody else's text with nothing in it that would move the cursor.
pub(super) fn inert(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long-name".to_owned(), "22".to_owned()]];
        assert_eq!(table(["ID", "N"], &rows), "ID         N\na          1\nlong-name  22\n");
    }

    #[test]
    fn a_cell_cannot_move_the_cursor() {
        let object = serde_json::json!({"reason": "a\u{1b}[2Jb\nc"});
        assert_eq!(cell(&object, "reason"), "a [2Jb c");
    }
}
