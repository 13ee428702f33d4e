//! What commands print: tables for people, JSON for programs.
//!
//! Tables have neither borders nor colours, so that they can be piped to `grep`, `sort` or `awk`.

use std::io::Write as _;

use agent_kill_switch::printable::printable;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde_json::Value;

use super::CliError;

/// How a command prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns.
    Table,
    /// The API's own JSON.
    Json,
}

/// Writes to standard output. If the reader has gone away, as `head` does, this returns an error where `print!` panics.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Prints a value as indented JSON.
pub(super) fn print_json(value: &Value) -> Result<(), CliError> {
    print(&format!("{value:#}\n"))
}

/// Prints a list: as a JSON array, or as a table with one row per item.
pub(super) fn print_list<const N: usize>(
    format: Format,
    items: Vec<Value>,
    heading: [&str; N],
    row: impl Fn(&Value) -> [String; N],
) -> Result<(), CliError> {
    match format {
        Format::Json => print_json(&Value::Array(items)),
        Format::Table => print(&table(heading, items.iter().map(row))),
    }
}

/// Aligns rows under a heading, with two spaces between columns and none at the end of a line.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    let rows = rows.into_iter().map(|row| row.map(|cell| printable(&cell)));
    table.load_style(presets::NOTHING).set_header(heading).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// Returns a list that is a member of an answer of the API. It is empty if there is no such list.
pub(super) fn list(body: &Value, member: &str) -> Vec<Value> {
    body.get(member).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns members of an object as cells of a table.
pub(super) fn cells<const N: usize>(object: &Value, members: [&str; N]) -> [String; N] {
    members.map(|member| cell(object, member))
}

/// Returns a member of an object as a cell of a table: strings without quotes, and `-` if there is no value.
pub(super) fn cell(object: &Value, member: &str) -> String {
    match object.get(member) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long-name".to_owned(), "22".to_owned()]];
        assert_eq!(table(["ID", "N"], rows), "ID         N\na          1\nlong-name  22\n");
        assert_eq!(table(["ID", "N"], []), "ID  N\n", "no rows");
        assert_eq!(table(["ID"], [["a\n\u{1b}[2Jb".to_owned()]]), "ID\na\u{FFFD}\u{FFFD}[2Jb\n", "no line is forged");
    }

    #[test]
    fn a_cell_cannot_move_the_cursor() {
        let object = serde_json::json!({"reason": "a\u{1b}[2Jb\nc"});
        assert_eq!(cell(&object, "reason"), "a\u{FFFD}[2Jb\u{FFFD}c");
    }
}
