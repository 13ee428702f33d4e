//! `kill-switch events`: lists events, or prints them as they happen.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::CliError;
use super::client::{PAGE, ServerOptions, query};
use super::output::{Format, cells, list, print, print_list};

/// How often `tail` asks for new events.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Subcommand, Debug)]
pub(super) enum EventsCommand {
    /// List events, the newest first
    List(List),
    /// Print the latest events and then each new one as it happens
    Tail(Tail),
}

#[derive(Args, Debug)]
struct Filter {
    /// Only events of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only events of this type, such as kill_switch
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only events at this time or later, such as 2024-01-15 or 2024-01-15T10:30:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only events before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// List at most N events
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Args, Debug)]
pub(super) struct Tail {
    /// How many of the latest events to begin with
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
    /// Returns the parameters of the query: those of the filter, followed by `more`.
    fn parameters<'a, const N: usize>(&self, more: [(&'a str, Option<String>); N]) -> Vec<(&'a str, Option<String>)> {
        let own = [("agent_id", self.agent.clone()), ("event_type", self.event_type.clone())];
        own.into_iter().chain(more).collect()
    }
}

impl List {
    async fn run(self) -> Result<(), CliError> {
        let Self { since, until, limit, filter } = self;
        let parameters = filter.parameters([("since", since), ("until", until)]);
        let (events, _) = filter.server.client()?.pages("events", &parameters, limit).await?;
        let heading = ["ID", "AT", "EVENT", "AGENT", "SESSION", "SCORE", "ACTOR", "REASON"];
        print_list(filter.server.format, events, heading, row)
    }
}

impl Tail {
    async fn run(self) -> Result<(), CliError> {
        let client = self.filter.server.client()?;
        // Also without any lines to begin with, one event is fetched: its id tells where the new ones begin.
        let (mut latest, _) = client.pages("events", &self.filter.parameters([]), self.lines.clamp(1, PAGE)).await?;
        latest.reverse();
        let mut last = latest.last().map_or(0, id);
        if self.lines > 0 {
            self.show(&latest)?;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            let newer = self.filter.parameters([("after", Some(last.to_string())), ("limit", Some(PAGE.to_string()))]);
            match client.get(&format!("/v1/events?{}", query(&newer))).await {
                Ok(page) => {
                    let events = list(&page, "events");
                    last = events.last().map_or(last, id);
                    self.show(&events)?;
                }
                // Following goes on when the sidecar is restarted.
                Err(error @ (CliError::Unreachable { .. } | CliError::Server { .. })) => {
                    eprintln!("kill-switch: {error}; trying again");
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn show(&self, events: &[Value]) -> Result<(), CliError> {
        events.iter().try_for_each(|event| match self.filter.server.format {
            Format::Json => print(&format!("{event}\n")),
            Format::Table => print(&format!("{}\n", row(event).join("  "))),
        })
    }
}

fn id(event: &Value) -> u64 {
    event.get("id").and_then(Value::as_u64).unwrap_or_default()
}

fn row(event: &Value) -> [String; 8] {
    cells(event, ["id", "at", "event_type", "agent_id", "session", "score", "actor", "reason"])
}
