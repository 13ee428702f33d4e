//! Words that a model repeats within one answer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A repetition within one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// How many words are repeated.
    pub period: u32,
    /// How many words all rounds together had when the repetition was found.
    pub words: u32,
}

impl Repetition {
    /// How often the words had come by then.
    pub fn rounds(self) -> u32 {
        self.words / self.period.max(1)
    }
}

/// The reason in events and refusals.
impl fmt::Display for Repetition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.rounds();
        match self.period {
            1 => write!(f, "the model repeated the same word {rounds} times in one answer"),
            period => write!(f, "the model repeated the same {period} words {rounds} times in one answer"),
        }
    }
}
