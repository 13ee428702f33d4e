//! `kill-switch usage`: the tokens that answers stated and the calls that were refused, by day.

use clap::Args;
use serde_json::Value;

use super::CliError;
use super::client::{ServerOptions, path};
use super::output::{Format, cell, cells, list, print, print_json, table};

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
        print(&table(heading, rows(&usage)))
    }
}

/// Returns a row for each model of each day, and one for a day without any. Refused calls are in the first row of their day.
fn rows(usage: &Value) -> Vec<[String; 7]> {
    let currency = cell(usage, "currency");
    let mut rows = Vec::new();
    for day in list(usage, "days") {
        let mut models = list(&day, "models");
        if models.is_empty() {
            models.push(Value::Null);
        }
        for (index, model) in models.iter().enumerate() {
            let cost = model.get("cost").and_then(Value::as_f64);
            let [name, answers, input, output] = cells(model, ["model", "calls", "input_tokens", "output_tokens"]);
            let cost = cost.map_or("-".to_owned(), |cost| format!("{cost:.4} {currency}"));
            let refused = if index == 0 { cell(&day, "refused") } else { "-".to_owned() };
            rows.push([cell(&day, "day"), name, answers, input, output, cost, refused]);
        }
    }
    rows
}
