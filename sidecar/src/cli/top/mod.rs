//! `kill-switch top`: the busiest agents in a table that refreshes itself, with keys that deactivate and activate them.
//!
//! Requests run in tasks of their own, so that keys are answered at once even if the server is slow. An error does not end
//! the command: it is shown below the table, and the next refresh tries again.

use std::io::{IsTerminal as _, stdin, stdout};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::MissedTickBehavior;

use super::CliError;
use super::agents::object;
use super::client::{Client, ServerOptions, path};
use super::output::{Format, list, print, print_json};
use screen::Screen;
use view::{Reaction, Verb, View, table};

mod screen;
mod view;

#[derive(Args, Debug)]
pub(super) struct TopOptions {
    /// How often the table is refreshed, in seconds
    #[arg(short = 'n', long, default_value = "2", value_name = "SECONDS", value_parser = interval)]
    interval: Duration,
    /// Print one table and end; this is also done if the input or the output is not a terminal
    #[arg(long)]
    once: bool,
    /// What comes first: agents close to their threshold, or those that call most often
    #[arg(long, value_enum, default_value_t = Sort::Score)]
    sort: Sort,
    /// Show at most N agents, 1 to 1000
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Who deactivates and activates agents, in addition to the token's name
    #[arg(long, env = "KILL_SWITCH_BY", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    Score,
    Rate,
}

impl Sort {
    fn as_str(self) -> &'static str {
        match self {
            Self::Score => "score",
            Self::Rate => "rate",
        }
    }
}

fn interval(given: &str) -> Result<Duration, String> {
    let seconds: f64 = given.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    if (0.1..=3_600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be from 0.1 to 3600".to_owned())
    }
}

/// What a request has led to.
enum News {
    Agents(Result<Vec<Value>, CliError>),
    /// An agent was activated or deactivated, or not.
    Done(Result<String, CliError>),
}

impl TopOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let client = Arc::new(self.server.client()?);
        // Whatever is wrong with the server or the token is said before the screen changes.
        let agents = fetch(&client, self.sort, self.limit).await?;
        if self.server.format == Format::Json {
            return print_json(&Value::Array(agents));
        }
        if self.once || !stdin().is_terminal() || !stdout().is_terminal() {
            return print(&table(&agents));
        }
        self.watch(client, agents).await
    }

    async fn watch(self, client: Arc<Client>, agents: Vec<Value>) -> Result<(), CliError> {
        let screen = Screen::open().map_err(CliError::Output)?;
        let mut view = View::new(self.server.shown(), self.sort, agents);
        let (sender, mut news) = unbounded_channel();
        let mut requests = Requests { client, limit: self.limit, by: self.by, sender, is_fetching: false };
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first table is there already.
        ticks.tick().await;
        let mut keys = EventStream::new();
        let mut ended = std::pin::pin!(crate::serve::terminated());
        loop {
            screen.draw(&view).map_err(CliError::Output)?;
            tokio::select! {
                () = &mut ended => return Ok(()),
                _ = ticks.tick() => requests.fetch(view.sort),
                Some(one) = receive(&mut news) => match one {
                    News::Agents(agents) => {
                        requests.is_fetching = false;
                        view.take(agents.map_err(|error| error.to_string()));
                    }
                    News::Done(done) => {
                        view.status = done.unwrap_or_else(|error| error.to_string());
                        requests.fetch(view.sort);
                    }
                },
                event = keys.next() => match event {
                    Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => match view.press(key) {
                        Reaction::None => {}
                        Reaction::Quit => return Ok(()),
                        Reaction::Refresh => requests.fetch(view.sort),
                        Reaction::Change(verb, agent_id) => requests.change(verb, agent_id),
                    },
                    // Another size of the terminal needs a new picture, which the loop draws.
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(CliError::Output(error)),
                    // The terminal is gone.
                    None => return Ok(()),
                },
            }
        }
    }
}

async fn receive(news: &mut UnboundedReceiver<News>) -> Option<News> {
    news.recv().await
}

async fn fetch(client: &Client, sort: Sort, limit: u32) -> Result<Vec<Value>, CliError> {
    let answer = client.get(&format!("/v1/activity?sort={}&limit={limit}", sort.as_str())).await?;
    Ok(list(&answer, "agents"))
}

/// The requests that are under way.
struct Requests {
    client: Arc<Client>,
    limit: u32,
    by: Option<String>,
    sender: UnboundedSender<News>,
    is_fetching: bool,
}

impl Requests {
    /// Asks for the table, unless it was asked for and has not arrived yet.
    fn fetch(&mut self, sort: Sort) {
        if std::mem::replace(&mut self.is_fetching, true) {
            return;
        }
        let (client, limit, sender) = (Arc::clone(&self.client), self.limit, self.sender.clone());
        tokio::spawn(async move {
            // Nobody listens any more if the command has ended.
            let _ = sender.send(News::Agents(fetch(&client, sort, limit).await));
        });
    }

    /// Activates or deactivates an agent.
    fn change(&self, verb: Verb, agent_id: String) {
        let (client, sender) = (Arc::clone(&self.client), self.sender.clone());
        let reason = Some(Value::from("kill-switch top"));
        let body = object([("reason", reason), ("by", self.by.clone().map(Value::from))]);
        tokio::spawn(async move {
            let path = path(["agents", &agent_id, verb.as_str()]);
            let done = client.send(client.request(Method::POST, &path).json(&body)).await;
            let _ = sender.send(News::Done(done.map(|_| format!("{agent_id} was {}d", verb.as_str()))));
        });
    }
}
