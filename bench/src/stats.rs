//! Medians, percentiles, ratios. A time means little on a machine that others use; a ratio within one round means more,
//! and the median of several rounds means what it says.

/// The middle one; of an even number, the mean of the two in the middle. 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.get(middle)) {
        (_, None) => 0.0,
        (len, Some(upper)) if len % 2 == 0 => (sorted[middle - 1] + upper) / 2.0,
        (_, Some(middle)) => *middle,
    }
}

/// The smallest value that at least so many percent of all do not exceed. 0 of none.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied().unwrap_or(0.0)
}

/// The median of the ratios of one to the other, round by round.
pub fn ratio(ones: &[f64], others: &[f64]) -> f64 {
    let ratios: Vec<f64> = ones.iter().zip(others).map(|(one, other)| one / other).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (percent, expected) in [(50.0, 50.0), (99.0, 99.0), (100.0, 100.0), (0.0, 1.0), (99.5, 100.0)] {
            assert_eq!(percentile(&hundred, percent), expected, "{percent} %");
        }
        assert_eq!(percentile(&[7.0], 99.0), 7.0);
        assert_eq!(percentile(&[], 99.0), 0.0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The third round ran while somebody else used the machine: both sides were slow.
        assert_eq!(ratio(&[2.0, 2.2, 40.0], &[1.0, 1.0, 20.0]), 2.0);
    }
}
