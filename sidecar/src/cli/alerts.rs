//! `kill-switch alerts`: creates, lists and deletes alert rules, sends test notices, and lists what was delivered.

use agent_kill_switch::printable::printable;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::CliError;
use super::agents::object;
use super::client::{ServerOptions, path};
use super::output::{Format, cell, cells, list, print, print_json, print_list};

#[derive(Subcommand, Debug)]
pub(super) enum AlertsCommand {
    /// List alert rules
    List {
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Create an alert rule; prints the secret of a signed channel, which is shown only once
    Create(Create),
    /// Delete an alert rule
    Delete {
        /// The id that `list` shows
        rule_id: String,
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

#[derive(Args, Debug)]
pub(super) struct Create {
    /// webhook, slack, teams, pagerduty, runtime or email
    #[arg(long)]
    channel: String,
    /// An https URL, the integration key of PagerDuty, or mail addresses separated by commas. On a shared machine use
    /// KILL_SWITCH_ALERT_TARGET, because others can see arguments
    #[arg(long, env = "KILL_SWITCH_ALERT_TARGET", hide_env_values = true)]
    target: String,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// Only this agent; without it, all agents
    #[arg(long, value_name = "AGENT_ID")]
    agent: Option<String>,
    /// For how long further notices of the same kind about an agent are held back
    #[arg(long, value_name = "SECONDS")]
    cooldown_seconds: Option<u32>,
    /// Whether to notify when an agent is activated again
    #[arg(long, value_name = "BOOL")]
    recovery: Option<bool>,
    #[command(flatten)]
    server: ServerOptions,
}

impl Create {
    async fn run(self) -> Result<(), CliError> {
        let body = object([
            ("channel", Some(self.channel.into())),
            ("target", Some(self.target.into())),
            ("name", self.name.map(Value::from)),
            ("agent_id", self.agent.map(Value::from)),
            ("cooldown_seconds", self.cooldown_seconds.map(Value::from)),
            ("recovery", self.recovery.map(Value::from)),
        ]);
        let client = self.server.client()?;
        let made = client.send(client.request(Method::POST, "/v1/alerts").json(&body)).await?;
        match self.server.format {
            Format::Json => print_json(&made),
            Format::Table => {
                let secret = made.get("secret").and_then(Value::as_str);
                let secret = secret.map(|secret| format!("secret {} (shown once)\n", printable(secret)));
                print(&format!("rule {}\n{}", cell(&made, "rule_id"), secret.unwrap_or_default()))
            }
        }
    }
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
            Self::Create(create) => create.run().await,
            Self::Delete { rule_id, server } => {
                let client = server.client()?;
                client.send(client.request(Method::DELETE, &path(["alerts", &rule_id]))).await.map(drop)
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
