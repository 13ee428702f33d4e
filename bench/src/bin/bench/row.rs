//! One line of the results: what was measured, the value, and its goal.

use std::fmt;

#[derive(Clone, Debug)]
pub struct Row {
    pub what: String,
    /// The figures behind the value, with their units.
    pub measured: String,
    /// The value that is compared with the goal.
    pub value: Value,
    pub goal: Goal,
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value(pub f64, pub Unit);

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A multiple of another value.
    Times,
    /// Hundredths of another value.
    Percent,
    Microseconds,
    Milliseconds,
    Seconds,
    Bytes,
    /// A number without a unit.
    Count,
}

/// The goal of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The value has no goal and is only reported.
    None,
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
    /// Less than this.
    Below(f64),
}

impl Row {
    pub fn new(what: impl Into<String>, measured: impl Into<String>, value: Value, goal: Goal) -> Self {
        Self { what: what.into(), measured: measured.into(), value, goal }
    }

    /// Returns whether the goal is reached, or `None` if there is no goal.
    pub fn passes(&self) -> Option<bool> {
        match self.goal {
            Goal::None => None,
            Goal::AtLeast(limit) => Some(self.value.0 >= limit),
            Goal::AtMost(limit) => Some(self.value.0 <= limit),
            Goal::Below(limit) => Some(self.value.0 < limit),
        }
    }

    /// Returns `PASS`, `MISS`, or nothing if there is no goal.
    pub fn verdict(&self) -> &'static str {
        self.passes().map_or("", |passes| if passes { "PASS" } else { "MISS" })
    }

    /// Returns the used share of what the goal allows, which is at most 1 if the goal is reached. Returns `None` if there
    /// is no goal.
    pub fn used(&self) -> Option<f64> {
        match self.goal {
            Goal::None => None,
            Goal::AtLeast(limit) => Some(limit / self.value.0),
            Goal::AtMost(0.0) => Some(if self.value.0 == 0.0 { 0.0 } else { f64::INFINITY }),
            Goal::AtMost(limit) | Goal::Below(limit) => Some((self.value.0 / limit).max(0.0)),
        }
    }

    /// Returns the goal as text.
    pub fn goal_text(&self) -> String {
        let value = |limit| Value(limit, self.value.1);
        match self.goal {
            Goal::None => String::new(),
            Goal::AtLeast(limit) => format!(">= {}", value(limit)),
            Goal::AtMost(limit) => format!("<= {}", value(limit)),
            Goal::Below(limit) => format!("< {}", value(limit)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.1 {
            Unit::Times => "x",
            Unit::Percent => " %",
            Unit::Microseconds => " us",
            Unit::Milliseconds => " ms",
            Unit::Seconds => " s",
            Unit::Bytes => " B",
            Unit::Count => "",
        };
        write!(f, "{}{unit}", digits(self.0))
    }
}

/// Formats a number to about three digits, with separators between thousands.
fn digits(number: f64) -> String {
    let text = match number.abs() {
        size if size >= 100.0 => return thousands(number.round() as i64),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn thousands(number: i64) -> String {
    let digits = number.abs().to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    format!("{}{}", if number < 0 { "-" } else { "" }, groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_or_missed() {
        let cases = [
            (100.0, Goal::AtLeast(100.0), "PASS", Some(1.0)),
            (80.0, Goal::AtLeast(100.0), "MISS", Some(1.25)),
            (1.0, Goal::AtMost(2.0), "PASS", Some(0.5)),
            (3.0, Goal::AtMost(2.0), "MISS", Some(1.5)),
            (-1.0, Goal::AtMost(2.0), "PASS", Some(0.0)),
            (2.0, Goal::Below(2.0), "MISS", Some(1.0)),
            (0.0, Goal::AtMost(0.0), "PASS", Some(0.0)),
            (1.0, Goal::AtMost(0.0), "MISS", Some(f64::INFINITY)),
            (1.0, Goal::None, "", None),
        ];
        for (value, goal, verdict, used) in cases {
            let row = Row::new("what", "", Value(value, Unit::Times), goal);
            assert_eq!((row.verdict(), row.used()), (verdict, used), "{row:?}");
        }
    }

    #[test]
    fn numbers_are_short_and_readable() {
        let cases =
            [(0.0, "0"), (0.054, "0.05"), (1.5, "1.5"), (12.34, "12.3"), (50.0, "50"), (1234567.0, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(digits(number), text);
        }
        assert_eq!(Value(1000.0, Unit::Times).to_string(), "1,000x");
        assert_eq!(Row::new("", "", Value(1.0, Unit::Times), Goal::AtMost(1.15)).goal_text(), "<= 1.15x");
    }
}
