//! `kill-switch alerts`: lists alert rules, sends test notices, and lists what was delivered.

use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use super::CliError;
use super::client::{ServerOptions, path};
use super::output::{Format, cell, cells, list, print, print_json, print_list};

#[derive(Subcommand, Debug)]
pub(super) enum AlertsCommand {
    /// List alert rules
    List {
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Send a test notice under a rule and say whether it arrived
    Test {
        /// The id that `list` shows
        rule_id: String,
        #[command(flatten)]
        server: ServerOptions,
    },
    /// List notices and whether they arrived, the newest first
    History {
        #[command(flatten)]
        server: ServerOptions,
    },
}

impl AlertsCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::List { server } => {
                let body = server.client()?.get("/v1/alerts").await?;
                let heading = ["RULE", "NAME", "AGENT", "CHANNEL", "TARGET", "ENABLED", "WHY NOT"];
                let members = ["rule_id", "name", "agent_id", "channel", "target", "enabled", "disabled_reason"];
                print_list(server.format, list(&body, "rules"), heading, |rule| cells(rule, members))
            }
            Self::Test { rule_id, server } => test(&rule_id, &server).await,
            Self::History { server } => {
                let body = server.client()?.get("/v1/alerts/history").await?;
                let heading = ["WHEN", "NOTICE", "AGENT", "CHANNEL", "STATUS", "ATTEMPTS", "CODE", "ERROR"];
                let members =
                    ["created", "kind", "agent_id", "channel", "status", "attempts", "last_code", "last_error"];
                print_list(server.format, list(&body, "deliveries"), heading, |delivery| cells(delivery, members))
            }
        }
    }
}

async fn test(rule_id: &str, server: &ServerOptions) -> Result<(), CliError> {
    let client = server.client()?;
    let delivery = client.send(client.request(Method::POST, &path(["alerts", rule_id, "test"]))).await?;
    match server.format {
        Format::Json => print_json(&delivery)?,
        Format::Table => {
            print(&format!("{} in {} ms\n", cell(&delivery, "status"), cell(&delivery, "last_latency_ms")))?;
        }
    }
    match delivery.get("status").and_then(Value::as_str) {
        Some("delivered") => Ok(()),
        _ => Err(CliError::Refused(format!("the notice did not arrive: {}", cell(&delivery, "last_error")))),
    }
}
