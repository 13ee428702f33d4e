//! How many runs of each kind were killed.

use serde_json::{Value, json};

use super::play::Outcome;
use super::recording::Label;

/// What a recording says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It must never be killed.
    Healthy,
    /// It must be killed.
    Loop,
    /// Nobody said.
    Unknown,
}

impl Expect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Healthy, Self::Loop, Self::Unknown];

    /// What a label says. Any other word, or none, says nothing.
    pub fn of(label: &Label) -> Self {
        match label.expect.as_deref() {
            Some("healthy") => Self::Healthy,
            Some("loop") => Self::Loop,
            _ => Self::Unknown,
        }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Loop => "loop",
            Self::Unknown => "unknown",
        }
    }

    /// Whether this is what was expected.
    pub fn is_met_by(self, outcome: &Outcome) -> bool {
        match self {
            Self::Healthy => outcome.killed_at.is_none(),
            Self::Loop => outcome.killed_at.is_some(),
            Self::Unknown => true,
        }
    }
}

/// The runs of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// How many there are.
    pub runs: usize,
    /// How many calls they made.
    pub calls: usize,
    /// How many runs were killed.
    pub killed: usize,
    /// The highest score of those that were not.
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

    /// The call at which half of the killed runs had been killed.
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

/// All runs, by what was expected of them.
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

    /// The runs of one kind.
    pub fn of(&self, expect: Expect) -> &Count {
        match expect {
            Expect::Healthy => &self.healthy,
            Expect::Loop => &self.looping,
            Expect::Unknown => &self.unknown,
        }
    }

    /// Healthy runs that were killed, and loops that were not.
    pub fn wrong(&self) -> (usize, usize) {
        (self.healthy.killed, self.looping.runs - self.looping.killed)
    }

    /// Runs and calls of all kinds.
    pub fn total(&self) -> (usize, usize) {
        let counts = Expect::ALL.map(|expect| self.of(expect));
        (counts.iter().map(|count| count.runs).sum(), counts.iter().map(|count| count.calls).sum())
    }

    /// The tally for programs.
    pub fn json(&self) -> Value {
        let (runs, calls) = self.total();
        let killed: usize = Expect::ALL.iter().map(|expect| self.of(*expect).killed).sum();
        json!({"runs": runs, "calls": calls, "killed": killed,
            "healthy": self.healthy.json(), "loop": self.looping.json(), "unknown": self.unknown.json()})
    }
}
