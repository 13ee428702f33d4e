//! What tokens cost, by model, as the operator's file says. Without the file nothing is said about money.
//!
//! ```yaml
//! currency: USD
//! models:
//!   gpt-4.1*: {input: 2.00, output: 8.00}
//! ```

use std::collections::BTreeMap;

use agent_kill_switch::printable::printable;
use agent_kill_switch::wire::ModelUsage;
use serde::Deserialize;

/// The longest name of a currency, in characters.
const MAX_CURRENCY: usize = 8;
const MILLION: f64 = 1_000_000.0;

/// The prices of models.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The currency of all prices, as it is shown.
    pub currency: String,
    /// The price of each model. A name that ends with `*` stands for all models whose names begin with what is before it.
    models: BTreeMap<String, Price>,
}

/// The price of a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: f64,
    output: f64,
}

/// What tokens cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The sum over all models that have a price.
    pub amount: f64,
    /// How many tokens belong to models that have none.
    pub unpriced_tokens: u64,
}

impl Prices {
    /// Reads the text of a file. The error names the model and the field that is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let prices: Self = serde_yaml_ng::from_str(text).map_err(|error| printable(&error.to_string()))?;
        let length = prices.currency.chars().count();
        if !(1..=MAX_CURRENCY).contains(&length) || printable(&prices.currency) != prices.currency {
            return Err(format!("currency must have 1 to {MAX_CURRENCY} printable characters, such as USD"));
        }
        for (model, price) in &prices.models {
            let name = printable(model);
            if model.trim_end_matches('*').contains('*') || model.ends_with("**") {
                return Err(format!("models.{name}: a * may only be the last character"));
            }
            for (field, value) in [("input", price.input), ("output", price.output)] {
                if !value.is_finite() || value < 0.0 {
                    return Err(format!("models.{name}.{field} ({value}) must be a number of at least 0"));
                }
            }
        }
        Ok(prices)
    }

    /// Returns the price of a model: that of its own name, or else that of the longest beginning.
    fn of(&self, model: &str) -> Option<Price> {
        let begins = |pattern: &str| pattern.strip_suffix('*').is_some_and(|beginning| model.starts_with(beginning));
        let matching = self.models.iter().filter(|(pattern, _)| begins(pattern));
        let longest = || matching.max_by_key(|(pattern, _)| pattern.len()).map(|(_, price)| price);
        self.models.get(model).or_else(longest).copied().filter(|_| !model.is_empty())
    }

    /// Returns what the tokens of a model cost, if it has a price.
    pub fn cost_of(&self, usage: &ModelUsage) -> Option<f64> {
        let Price { input, output } = self.of(&usage.model)?;
        Some((usage.input_tokens as f64 * input + usage.output_tokens as f64 * output) / MILLION)
    }

    /// Returns what the tokens of several models cost.
    pub fn cost<'a>(&self, models: impl IntoIterator<Item = &'a ModelUsage>) -> Cost {
        let mut cost = Cost::default();
        for usage in models {
            match self.cost_of(usage) {
                Some(amount) => cost.amount += amount,
                None => cost.unpriced_tokens += usage.input_tokens + usage.output_tokens,
            }
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
currency: EUR
models:
  gpt-4.1: {input: 2, output: 8}
  gpt-4.1-mini: {input: 0.4, output: 1.6}
  gpt-*: {input: 10, output: 20}
  claude-sonnet-*:
    input: 3.00
    output: 15.00
";

    fn used(model: &str) -> ModelUsage {
        ModelUsage { model: model.to_owned(), calls: 1, input_tokens: 1_000_000, output_tokens: 500_000 }
    }

    #[test]
    fn a_model_costs_what_its_own_name_or_the_longest_beginning_says() {
        let prices = Prices::parse(FILE).unwrap();
        for (model, cost) in [
            ("gpt-4.1", Some(6.0)),
            ("gpt-4.1-mini", Some(1.2)),
            ("gpt-4.1-nano", Some(20.0)),
            ("claude-sonnet-4-5-20250929", Some(10.5)),
            ("claude-opus", None),
            ("", None),
        ] {
            assert_eq!(prices.cost_of(&used(model)), cost, "{model}");
        }
        let used = [used("gpt-4.1"), used("claude-sonnet-4"), used(""), used("llama")];
        assert_eq!(prices.cost(&used), Cost { amount: 16.5, unpriced_tokens: 3_000_000 });
        let all = Prices::parse("{currency: $, models: {'*': {input: 1, output: 1}}}").unwrap();
        assert_eq!(all.cost(&used[2..3]), Cost { amount: 0.0, unpriced_tokens: 1_500_000 }, "the name is not known");
    }

    #[test]
    fn an_error_names_the_model_and_the_field() {
        let gpt = |fields: &str| format!("{{currency: USD, models: {{gpt-4.1: {{{fields}}}}}}}");
        for (text, named) in [
            (gpt("input: 2"), "models.gpt-4.1: missing field `output`"),
            (gpt("input: cheap, output: 8"), "models.gpt-4.1.input: invalid type: string \"cheap\""),
            (gpt("input: 2, output: -8"), "models.gpt-4.1.output (-8) must be a number of at least 0"),
            (gpt("input: .nan, output: 8"), "models.gpt-4.1.input (NaN) must be a number of at least 0"),
            (gpt("input: 2, output: 8, cached: 1"), "models.gpt-4.1: unknown field `cached`"),
            ("{currency: USD, models: {g*t: {input: 1, output: 1}}}".to_owned(), "models.g*t: a * may only be"),
            ("{currency: USD, models: {gpt: 7}}".to_owned(), "models.gpt: invalid type"),
            ("{currency: '', models: {}}".to_owned(), "currency must have 1 to 8 printable characters"),
            ("{models: {}}".to_owned(), "missing field `currency`"),
            ("currency: USD".to_owned(), "missing field `models`"),
            ("- gpt".to_owned(), "invalid type"),
        ] {
            let error = Prices::parse(&text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
