//! Counts how many runs were killed, by what was expected of them.

use serde_json::{Value, json};

use super::detector::Outcome;
use super::recording::Label;

/// What a recording says should happen to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It must never be killed.
    Healthy,
    /// It must be killed.
    Loop,
    /// The recording does not say.
    Unknown,
}

impl Expect {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Healthy, Self::Loop, Self::Unknown];

    /// Returns what a label expects. Unknown words count as [`Self::Unknown`].
    pub fn of(label: &Label) -> Self {
        match label.expect.as_deref() {
            Some("healthy") => Self::Healthy,
            Some("loop") => Self::Loop,
            _ => Self::Unknown,
        }
    }

    /// Returns the word that recordings and reports use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Loop => "loop",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether a run that ended with `outcome` is as expected.
    pub fn is_met_by(self, outcome: &Outcome) -> bool {
        match self {
            Self::Healthy => outcome.killed_at.is_none(),
            Self::Loop => outcome.killed_at.is_some(),
            Self::Unknown => true,
        }
    }
}

/// Counts of the runs of which the same is expected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// How many runs there are.
    pub runs: usize,
    /// How many calls they made.
    pub calls: usize,
    /// How many runs were killed.
    pub killed: usize,
    /// The highest score of the runs that were not killed.
    pub highest_score: f64,
    kill_calls: Vec<usize>,
}

impl Count {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.calls += outcome.calls;
        match outcome.killed_at {
            Some(call) => {
                self.killed += 1;
                self.kill_calls.push(call);
            }
            None => self.highest_score = self.highest_score.max(outcome.score.value()),
        }
    }

    /// Returns the call by which half of the killed runs had been killed. `None` if none was killed.
    pub fn median_kill(&self) -> Option<usize> {
        let mut calls = self.kill_calls.clone();
        calls.sort_unstable();
        calls.get(calls.len().checked_sub(1)? / 2).copied()
    }

    fn json(&self) -> Value {
        json!({"runs": self.runs, "calls": self.calls, "killed": self.killed, "highest_score": self.highest_score,
            "median_killed_at": self.median_kill()})
    }
}

/// Counts of all runs, by what was expected of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    healthy: Count,
    looping: Count,
    unknown: Count,
}

impl Tally {
    /// Counts a run.
    pub fn add(&mut self, expect: Expect, outcome: &Outcome) {
        match expect {
            Expect::Healthy => self.healthy.add(outcome),
            Expect::Loop => self.looping.add(outcome),
            Expect::Unknown => self.unknown.add(outcome),
        }
    }

    /// Returns the counts of the runs of which `expect` is expected.
    pub fn of(&self, expect: Expect) -> &Count {
        match expect {
            Expect::Healthy => &self.healthy,
            Expect::Loop => &self.looping,
            Expect::Unknown => &self.unknown,
        }
    }

    /// Returns how many healthy runs were killed, and how many loops were not.
    pub fn wrong(&self) -> (usize, usize) {
        (self.healthy.killed, self.looping.runs - self.looping.killed)
    }

    /// Returns the counts as JSON, with their totals.
    pub fn json(&self) -> Value {
        let total =
            |count: fn(&Count) -> usize| Expect::ALL.iter().map(|expect| count(self.of(*expect))).sum::<usize>();
        json!({"runs": total(|count| count.runs), "calls": total(|count| count.calls), "killed": total(|count| count.killed),
            "healthy": self.healthy.json(), "loop": self.looping.json(), "unknown": self.unknown.json()})
    }
}
