//! One line of the results: what was measured, what it came to, and what it was to be.

use std::fmt;

/// One line.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figures behind the value, with their units.
    pub measured: String,
    /// What counts.
    pub value: Value,
    /// What it was to be.
    pub goal: Goal,
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value(pub f64, pub Unit);

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Times something else.
    Times,
    /// Hundredths of something else.
    Percent,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Things, or bare numbers.
    Count,
}

/// What a value was to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// It says something, and was to be nothing.
    None,
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
    /// Less than this.
    Below(f64),
    /// More would be welcome: no less than this.
    BeyondAtLeast(f64),
    /// Less would be welcome: no more than this.
    BeyondAtMost(f64),
}

/// Whether a goal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Pass,
    /// It is not.
    Miss,
}

impl Row {
    /// A line.
    pub fn new(what: impl Into<String>, measured: impl Into<String>, value: Value, goal: Goal) -> Self {
        Self { what: what.into(), measured: measured.into(), value, goal }
    }

    /// Whether the goal is reached, where there is one that counts.
    pub fn verdict(&self) -> Option<Verdict> {
        let reached = match self.goal {
            Goal::AtLeast(limit) => self.value.0 >= limit,
            Goal::AtMost(limit) => self.value.0 <= limit,
            Goal::Below(limit) => self.value.0 < limit,
            Goal::None | Goal::BeyondAtLeast(_) | Goal::BeyondAtMost(_) => return None,
        };
        Some(if reached { Verdict::Pass } else { Verdict::Miss })
    }

    /// How much of what the goal allows is used: up to 1 it is reached. Nothing where there is no goal that counts.
    pub fn used(&self) -> Option<f64> {
        match self.goal {
            Goal::AtLeast(limit) => Some(limit / self.value.0),
            Goal::AtMost(0.0) => Some(if self.value.0 == 0.0 { 0.0 } else { f64::INFINITY }),
            Goal::AtMost(limit) | Goal::Below(limit) => Some(self.value.0 / limit),
            Goal::None | Goal::BeyondAtLeast(_) | Goal::BeyondAtMost(_) => None,
        }
    }

    /// The goal in words.
    pub fn goal_text(&self) -> String {
        let value = |limit| Value(limit, self.value.1);
        match self.goal {
            Goal::None => String::new(),
            Goal::AtLeast(limit) => format!(">= {}", value(limit)),
            Goal::AtMost(limit) => format!("<= {}", value(limit)),
            Goal::Below(limit) => format!("< {}", value(limit)),
            Goal::BeyondAtLeast(limit) => format!("beyond: {}", value(limit)),
            Goal::BeyondAtMost(limit) => format!("beyond: <= {}", value(limit)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, unit) = *self;
        match unit {
            Unit::Times => write!(f, "{}x", digits(number)),
            Unit::Percent => write!(f, "{} %", digits(number)),
            Unit::Microseconds => write!(f, "{} us", digits(number)),
            Unit::Milliseconds => write!(f, "{} ms", digits(number)),
            Unit::Seconds => write!(f, "{} s", digits(number)),
            Unit::Bytes => write!(f, "{} B", digits(number)),
            Unit::Count => f.write_str(&digits(number)),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Miss => "MISS",
        })
    }
}

/// A number to three figures or so, thousands apart.
fn digits(number: f64) -> String {
    let text = match number.abs() {
        size if size >= 100.0 => return thousands(number.round() as i64),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

fn thousands(number: i64) -> String {
    let digits = number.abs().to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    format!("{}{}", if number < 0 { "-" } else { "" }, groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, goal: Goal) -> Row {
        Row::new("what", "", Value(value, Unit::Times), goal)
    }

    #[test]
    fn a_goal_is_reached_or_not() {
        let cases = [
            (row(100.0, Goal::AtLeast(100.0)), Some(Verdict::Pass), Some(1.0)),
            (row(80.0, Goal::AtLeast(100.0)), Some(Verdict::Miss), Some(1.25)),
            (row(1.0, Goal::AtMost(2.0)), Some(Verdict::Pass), Some(0.5)),
            (row(3.0, Goal::AtMost(2.0)), Some(Verdict::Miss), Some(1.5)),
            (row(2.0, Goal::Below(2.0)), Some(Verdict::Miss), Some(1.0)),
            (row(0.0, Goal::AtMost(0.0)), Some(Verdict::Pass), Some(0.0)),
            (row(1.0, Goal::AtMost(0.0)), Some(Verdict::Miss), Some(f64::INFINITY)),
            (row(1.0, Goal::BeyondAtLeast(2.0)), None, None),
            (row(1.0, Goal::None), None, None),
        ];
        for (row, verdict, used) in cases {
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
        assert_eq!(row(1.0, Goal::AtMost(1.15)).goal_text(), "<= 1.15x");
    }
}
