//! The same runs under many settings: what a lower threshold catches, and what it costs.

use agent_kill_switch::detect::progress::Rules;
use agent_kill_switch::policy::check_settings;
use agent_kill_switch::wire::Counting;

use super::play::{Settings, play};
use super::replayer::Run;
use super::tally::{Expect, Tally};

/// Windows that are tried unless others are asked for.
pub const WINDOWS: [f64; 4] = [10.0, 20.0, 40.0, 80.0];
/// Thresholds that are tried unless others are asked for.
pub const THRESHOLDS: [f64; 6] = [4.0, 6.0, 8.0, 10.0, 15.0, 20.0];
/// Ways of counting that are tried unless one is asked for.
pub const COUNTINGS: [Counting; 2] = [Counting::Progress, Counting::Literal];

/// Tallies under each setting.
#[derive(Clone, Debug, Default)]
pub struct Sweep(Vec<(Settings, Tally)>);

impl Sweep {
    /// Every combination that a policy may have: a threshold that its window can never exceed is left out.
    pub fn new(countings: &[Counting], windows: &[f64], thresholds: &[f64], rules: Rules) -> Self {
        let mut rows = Vec::new();
        for &counting in countings {
            for &window in windows {
                for &threshold in thresholds {
                    if let Ok((window_size, threshold)) = check_settings(window, threshold) {
                        rows.push((Settings { window_size, threshold, counting, rules }, Tally::default()));
                    }
                }
            }
        }
        Self(rows)
    }

    /// Plays a run under each setting.
    pub fn add(&mut self, run: &Run) {
        let expect = Expect::of(&run.label);
        for (settings, tally) in &mut self.0 {
            tally.add(expect, &play(&run.steps, settings));
        }
    }

    /// The settings and what came of them.
    pub fn rows(&self) -> &[(Settings, Tally)] {
        &self.0
    }
}
