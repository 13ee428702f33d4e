//! The tokens that providers say their answers took.

use serde::{Deserialize, Serialize};

/// Tokens, as providers state them. Cached and reasoning tokens are part of them, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The tokens of requests.
    pub input_tokens: u32,
    /// The tokens of answers.
    pub output_tokens: u32,
}

impl Usage {
    /// Adds tokens.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }

    /// Returns how many more tokens these are than those of an earlier part of the same answer.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
        }
    }

    /// Returns the tokens, unless there are none, which means that nothing is known about them.
    pub fn stated(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The tokens that the answers of one model took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The model that the answers name. Empty if they name none, and for all models together that did not fit.
    #[serde(default)]
    pub model: String,
    /// How many answers stated their tokens.
    #[serde(default)]
    pub calls: u64,
    /// The tokens of their requests.
    #[serde(default)]
    pub input_tokens: u64,
    /// The tokens of these answers.
    #[serde(default)]
    pub output_tokens: u64,
}

impl ModelUsage {
    /// Adds the tokens of other answers.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// How many models a report about an agent tells apart. The others are added up under the empty name.
pub const MAX_MODELS: usize = 4;

/// Adds the tokens of a model to a list that is bounded by [`MAX_MODELS`].
pub fn add_usage(list: &mut Vec<ModelUsage>, mut usage: ModelUsage) {
    let named = list.iter().filter(|known| !known.model.is_empty()).count();
    let is_known = list.iter().any(|known| known.model == usage.model);
    if !is_known && named >= MAX_MODELS {
        usage.model.clear();
    }
    match list.iter_mut().find(|known| known.model == usage.model) {
        Some(known) => known.add(&usage),
        None => list.push(usage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_models_are_told_apart_and_the_others_are_added_up() {
        let mut list = Vec::new();
        for model in ["a", "b", "", "a", "c", "d", "e", "f", "b"] {
            let usage = ModelUsage { model: model.to_owned(), calls: 1, input_tokens: 10, output_tokens: 3 };
            add_usage(&mut list, usage);
        }
        let found: Vec<_> = list.iter().map(|usage| (usage.model.as_str(), usage.calls)).collect();
        assert_eq!(found, [("a", 2), ("b", 2), ("", 3), ("c", 1), ("d", 1)]);
        assert_eq!(list.iter().map(|usage| usage.input_tokens).sum::<u64>(), 90);
    }
}
