//! What agents used and what they were refused, by day.

use agent_kill_switch::wire::ModelUsage;

use super::Millis;
use crate::clock::rfc3339;

const DAY_MS: Millis = 86_400_000;

/// Returns the day of a time, in days since 1970, UTC.
pub fn day_of(at_ms: Millis) -> u64 {
    at_ms / DAY_MS
}

/// Writes a day as a date, such as 2024-01-15.
pub fn date_of(day: u64) -> String {
    let mut date = rfc3339(day.saturating_mul(DAY_MS));
    date.truncate("2024-01-15".len());
    date
}

/// Writes a whole number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One day of an agent, or of all agents together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageDay {
    /// The day, in days since 1970, UTC.
    pub day: u64,
    /// How many calls were refused.
    pub refused: u64,
    /// The tokens that answers stated, by model.
    pub models: Vec<ModelUsage>,
}

impl UsageDay {
    /// Returns the tokens of all models.
    pub fn total(&self) -> ModelUsage {
        let mut total = ModelUsage::default();
        self.models.iter().for_each(|usage| total.add(usage));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_between_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_day_ends_at_midnight_of_utc() {
        assert_eq!((day_of(0), day_of(DAY_MS - 1), day_of(DAY_MS)), (0, 0, 1));
        assert_eq!((date_of(0), date_of(19_737)), ("1970-01-01".to_owned(), "2024-01-15".to_owned()));
    }
}
