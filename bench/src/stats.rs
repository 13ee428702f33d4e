//! Medians, percentiles, ratios. On a shared machine a single time means little. The ratio of two times of one round is more
//! reliable, and the median of several such ratios is what the benchmarks report.

/// Returns the median; for an even number of values the mean of the two in the middle, and 0 for none.
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

/// Returns the smallest value that at least this percentage of all values does not exceed, and 0 for none.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).copied().unwrap_or(0.0)
}

/// Returns the median of the ratios of each round.
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
        // In the third round both sides were slow, because something else used the machine.
        assert_eq!(ratio(&[2.0, 2.2, 40.0], &[1.0, 1.0, 20.0]), 2.0);
    }
}
