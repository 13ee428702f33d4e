//! Plays runs under many settings: what a lower threshold catches, and what it costs.

use super::detector::{Counting, Settings, play};
use super::run::Run;
use super::tally::{Expect, Tally};
use crate::service::check_tools;

/// The window sizes of a sweep, unless others are given.
pub const WINDOW_SIZES: [f64; 4] = [10.0, 20.0, 40.0, 80.0];
/// The thresholds of a sweep, unless others are given.
pub const THRESHOLDS: [f64; 6] = [4.0, 6.0, 8.0, 10.0, 15.0, 20.0];
/// The ways of counting of a sweep, unless one is given.
pub const COUNTINGS: [Counting; 2] = [Counting::Progress, Counting::Literal];

/// A tally for each setting.
#[derive(Clone, Debug, Default)]
pub struct Sweep(Vec<(Settings, Tally)>);

impl Sweep {
    /// Creates a sweep over all combinations that a policy may have. A threshold that its window can never exceed is
    /// left out, and so is a window that is smaller than a tool's number. Everything else is taken from `settings`.
    pub fn new(countings: &[Counting], window_sizes: &[f64], thresholds: &[f64], settings: &Settings) -> Self {
        let mut rows = Vec::new();
        for &counting in countings {
            let settings = Settings { counting, ..settings.clone() };
            for &window_size in window_sizes {
                let with = |threshold: &f64| {
                    let settings = settings.clone().with(window_size, *threshold).ok()?;
                    check_tools(&settings.tools, settings.window_size).is_ok().then_some(settings)
                };
                let allowed = thresholds.iter().filter_map(with);
                rows.extend(allowed.map(|settings| (settings, Tally::default())));
            }
        }
        Self(rows)
    }

    /// Plays a run under each setting.
    pub fn add(&mut self, run: &Run) {
        let expect = Expect::of(&run.label);
        for (settings, tally) in &mut self.0 {
            tally.add(expect, &play(&run.calls, settings));
        }
    }

    /// Returns each setting with its tally.
    pub fn rows(&self) -> &[(Settings, Tally)] {
        &self.0
    }
}
