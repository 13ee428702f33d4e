//! `kill-switch usage`: the tokens that answers stated and the calls that were refused, by day.

use clap::Args;
use serde_json::{Value, json};

use super::CliError;
use super::client::{ServerOptions, path};
use super::output::{Format, cell, list, print_json, print_list};

#[derive(Args, Debug)]
pub(super) struct UsageOptions {
    /// The agent's id; all agents together if not given
    agent_id: Option<String>,
    /// How many days, today included, 1 to 400
    #[arg(long, default_value_t = 30, value_name = "N")]
    days: u32,
    #[command(flatten)]
    server: ServerOptions,
}

impl UsageOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let path = match &self.agent_id {
            Some(agent_id) => path(["agents", agent_id, "usage"]),
            None => path(["usage"]),
        };
        let usage = self.server.client()?.get(&format!("{path}?days={}", self.days)).await?;
        if self.server.format == Format::Json {
            return print_json(&usage);
        }
        let heading = ["DAY", "MODEL", "ANSWERS", "INPUT TOKENS", "OUTPUT TOKENS", "COST", "REFUSED CALLS"];
        print_list(Format::Table, rows(&usage), heading, |row| {
            ["day", "model", "calls", "input_tokens", "output_tokens", "cost", "refused"]
                .map(|member| cell(row, member))
        })
    }
}

/// Returns a row for each model of each day, and one for a day without any. Refused calls are in the first row of their day.
fn rows(usage: &Value) -> Vec<Value> {
    let currency = usage.get("currency").and_then(Value::as_str);
    let mut rows = Vec::new();
    for day in list(usage, "days") {
        let mut models = list(&day, "models");
        if models.is_empty() {
            models.push(json!({}));
        }
        for (index, mut row) in models.into_iter().enumerate() {
            let cost = row.get("cost").and_then(Value::as_f64);
            row["cost"] = cost.zip(currency).map(|(cost, currency)| format!("{cost:.4} {currency}")).into();
            row["day"] = day.get("day").cloned().unwrap_or_default();
            row["refused"] = day.get("refused").cloned().filter(|_| index == 0).unwrap_or_default();
            rows.push(row);
        }
    }
    rows
}
