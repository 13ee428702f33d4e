//! `kill-switch events`: what happened, and what happens.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::CliError;
use super::client::{Client, Connection, query};
use super::output::{Format, Output, cell, print, print_json, table};

/// How often `tail` asks for more.
const PERIOD: Duration = Duration::from_secs(1);
/// Events fetched with one request.
const PAGE: usize = 1_000;

#[derive(Subcommand, Debug)]
pub(super) enum EventsCommand {
    /// List events, the newest first
    List(List),
    /// Print the latest events and then each new one as it happens
    Tail(Tail),
}

#[derive(Args, Debug)]
struct Filter {
    /// Of this agent only
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Of this type only, such as kill_switch
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// At this time or later, such as 2024-01-15 or 2024-01-15T10:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most N
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Args, Debug)]
pub(super) struct Tail {
    /// How many of the latest to begin with
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    lines: usize,
    #[command(flatten)]
    filter: Filter,
}

impl EventsCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::List(list) => list.run().await,
            Self::Tail(tail) => tail.run().await,
        }
    }
}

impl Filter {
    /// The query of a page: the filter, and what the caller adds.
    fn query(&self, more: &[(&str, Option<String>)]) -> String {
        let mut params = vec![("agent_id", self.agent.clone()), ("event_type", self.event_type.clone())];
        params.extend_from_slice(more);
        query(&params)
    }
}

impl List {
    async fn run(self) -> Result<(), CliError> {
        let client = self.filter.connection.client()?;
        let mut events = Vec::new();
        let mut cursor = None;
        while events.len() < self.limit {
            let query = self.filter.query(&[
                ("since", self.since.clone()),
                ("until", self.until.clone()),
                ("limit", Some((self.limit - events.len()).min(PAGE).to_string())),
                ("cursor", cursor),
            ]);
            let page = page(&client, &query).await?;
            events.extend(page.events);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        match self.filter.output.format {
            Format::Json => print_json(&json!(events)),
            Format::Table => {
                let rows: Vec<_> = events.iter().map(row).collect();
                print(&table(HEADING, &rows))
            }
        }
    }
}

impl Tail {
    async fn run(self) -> Result<(), CliError> {
        let client = self.filter.connection.client()?;
        let latest = self.filter.query(&[("limit", Some(self.lines.clamp(1, PAGE).to_string()))]);
        let mut first = page(&client, &latest).await?.events;
        first.reverse();
        let mut last = first.last().map_or(0, id);
        if self.lines > 0 {
            self.show(&first)?;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            let newer = self.filter.query(&[("after", Some(last.to_string())), ("limit", Some(PAGE.to_string()))]);
            match page(&client, &newer).await {
                Ok(page) => {
                    last = page.events.last().map_or(last, id);
                    self.show(&page.events)?;
                }
                // A sidecar that restarts is no reason to stop following.
                Err(error @ (CliError::Unreachable { .. } | CliError::Server { .. })) => {
                    eprintln!("kill-switch: {error}; trying again");
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn show(&self, events: &[Value]) -> Result<(), CliError> {
        events.iter().try_for_each(|event| match self.filter.output.format {
            Format::Json => print(&format!("{event}\n")),
            Format::Table => print(&format!("{}\n", row(event).join("  "))),
        })
    }
}

struct Page {
    events: Vec<Value>,
    next_cursor: Option<String>,
}

async fn page(client: &Client, query: &str) -> Result<Page, CliError> {
    let body = client.get(&format!("/v1/events?{query}")).await?;
    Ok(Page {
        events: body.get("events").and_then(Value::as_array).cloned().unwrap_or_default(),
        next_cursor: body.get("next_cursor").and_then(Value::as_str).map(str::to_owned),
    })
}

fn id(event: &Value) -> u64 {
    event.get("id").and_then(Value::as_u64).unwrap_or_default()
}

const HEADING: [&str; 7] = ["ID", "AT", "EVENT", "AGENT", "SCORE", "ACTOR", "REASON"];

fn row(event: &Value) -> [String; 7] {
    ["id", "at", "event_type", "agent_id", "score", "actor", "reason"].map(|member| cell(event, member))
}
