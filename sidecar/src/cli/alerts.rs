//! `kill-switch alerts`: which rules there are, whether they work, and what was sent.

use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use super::CliError;
use super::client::{Connection, rule_path};
use super::output::{Format, Output, cell, print, print_json, table};

#[derive(Subcommand, Debug)]
pub(super) enum AlertsCommand {
    /// List alert rules
    List {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        output: Output,
    },
    /// Send a test notice under a rule and say how it went
    Test {
        /// The id that `list` shows
        rule_id: String,
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        output: Output,
    },
    /// List what was sent, the newest first
    History {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        output: Output,
    },
}

impl AlertsCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::List { connection, output } => {
                let body = connection.client()?.get("/v1/alerts").await?;
                let members = ["rule_id", "name", "agent_id", "channel", "target", "enabled", "disabled_reason"];
                let heading = ["RULE", "NAME", "AGENT", "CHANNEL", "TARGET", "ENABLED", "WHY NOT"];
                show(&body, "rules", output, heading, members)
            }
            Self::Test { rule_id, connection, output } => test(&rule_id, &connection, output).await,
            Self::History { connection, output } => {
                let body = connection.client()?.get("/v1/alerts/history").await?;
                let members =
                    ["created", "kind", "agent_id", "channel", "status", "attempts", "last_code", "last_error"];
                let heading = ["WHEN", "NOTICE", "AGENT", "CHANNEL", "STATUS", "TRIES", "CODE", "ERROR"];
                show(&body, "deliveries", output, heading, members)
            }
        }
    }
}

async fn test(rule_id: &str, connection: &Connection, output: Output) -> Result<(), CliError> {
    let path = format!("{}/test", rule_path(rule_id));
    let went = connection.client()?.send(Method::POST, &path, None).await?;
    match output.format {
        Format::Json => print_json(&went)?,
        Format::Table => print(&format!("{} in {} ms\n", cell(&went, "status"), cell(&went, "last_latency_ms")))?,
    }
    match went.get("status").and_then(Value::as_str) {
        Some("delivered") => Ok(()),
        _ => Err(CliError::Refused { detail: format!("the notice did not arrive: {}", cell(&went, "last_error")) }),
    }
}

fn show<const N: usize>(
    body: &Value,
    list: &str,
    output: Output,
    heading: [&str; N],
    members: [&str; N],
) -> Result<(), CliError> {
    let items = body.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    if output.format == Format::Json {
        return print_json(&Value::Array(items));
    }
    let rows: Vec<_> = items.iter().map(|item| members.map(|member| cell(item, member))).collect();
    print(&table(heading, &rows))
}
