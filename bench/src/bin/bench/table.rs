//! Formats rows as a table, for a terminal and in Markdown.

use crate::row::Row;

const HEADINGS: [&str; 5] = ["what", "measured", "value", "goal", ""];

fn cells(row: &Row) -> [String; 5] {
    [row.what.clone(), row.measured.clone(), row.value.to_string(), row.goal_text(), row.verdict().to_owned()]
}

/// Formats rows with columns of the width of their contents.
pub fn terminal(rows: &[Row]) -> String {
    let lines: Vec<[String; 5]> = [HEADINGS.map(str::to_owned)].into_iter().chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let line = |cells: &[String; 5]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Formats rows for docs/benchmarks.md.
pub fn markdown(rows: &[Row]) -> String {
    let mut out = format!("| {} |\n|---|---|---|---|---|\n", HEADINGS.join(" | "));
    for row in rows {
        out += &format!("| {} |\n", cells(row).join(" | "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Goal, Unit, Value};

    #[test]
    fn columns_line_up() {
        let rows = [
            Row::new("a", "1 us, 2 us", Value(2.0, Unit::Times), Goal::AtMost(3.0)),
            Row::new("longer", "", Value(200.0, Unit::Times), Goal::None),
        ];
        let expected =
            "  what    measured    value  goal\n  a       1 us, 2 us  2x     <= 3x  PASS\n  longer              200x";
        assert_eq!(terminal(&rows), expected);
        assert!(markdown(&rows).ends_with("| longer |  | 200x |  |  |\n"));
    }
}
