//! Milliseconds since 1970 as RFC 3339, for Ollama, whose answers contain such a date.
//!
//! By hand, because the humantime crate adds four kilobytes to the module and fails for years after 9999.

const MS_PER_DAY: u64 = 86_400_000;

/// Formats a time as `2024-01-15T10:30:00.000Z`.
pub(super) fn rfc3339(at_ms: u64) -> String {
    let (year, month, day) = civil(at_ms / MS_PER_DAY);
    let ms = at_ms % MS_PER_DAY;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Returns year, month and day of the day that is this many days after 1 January 1970.
///
/// Years are counted from 1 March, so that the leap day is the last day of a year and the length of each month follows
/// from its position: five months are always 153 days. Whole cycles of 400 years, 146,097 days each, are removed first.
fn civil(days: u64) -> (u64, u64, u64) {
    let since_march_of_0000 = days + 719_468;
    let cycle = since_march_of_0000 / 146_097;
    let day_of_cycle = since_march_of_0000 % 146_097;
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * cycle + year_of_cycle + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_have_their_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_705_314_600_000, "2024-01-15T10:30:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (at_ms, date) in cases {
            assert_eq!(rfc3339(at_ms), date);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(civil(days), (year, month, day), "day {days}");
            let length = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (month, day) = if day < length { (month, day + 1) } else { (month + 1, 1) };
            (year, month) = if month == 13 { (year + 1, 1) } else { (year, month) };
        }
    }
}
