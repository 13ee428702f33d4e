//! `kill-switch pause` and `kill-switch resume`: stop nothing for a while, and stop loops again.

use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::CliError;
use super::agents::Note;
use super::client::ServerOptions;
use super::output::{Format, cell, print, print_json};

const PATH: &str = "/v1/pause";

#[derive(Args, Debug)]
pub(super) struct PauseOptions {
    /// How long to pause, such as 30m or 2h; at most 7d
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    length: Duration,
    /// Only show whether the fleet is paused
    #[arg(long, conflicts_with_all = ["length", "reason", "by"])]
    status: bool,
    #[command(flatten)]
    note: Note,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
pub(super) struct ResumeOptions {
    #[command(flatten)]
    note: Note,
    #[command(flatten)]
    server: ServerOptions,
}

impl PauseOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let client = self.server.client()?;
        let pause = if self.status {
            client.get(PATH).await?
        } else {
            let mut body = self.note.body();
            body.insert("for_seconds".to_owned(), json!(self.length.as_secs_f64()));
            client.send(client.request(Method::PUT, PATH).json(&body)).await?
        };
        show(&self.server, &pause)
    }
}

impl ResumeOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let client = self.server.client()?;
        let pause = client.send(client.request(Method::DELETE, PATH).json(&self.note.body())).await?;
        show(&self.server, &pause)
    }
}

fn show(server: &ServerOptions, pause: &Value) -> Result<(), CliError> {
    match server.format {
        Format::Json => print_json(pause),
        Format::Table => print(&format!("{}\n", sentence(pause))),
    }
}

/// Says in one line whether the fleet is paused, by whom, why, and until when.
pub(super) fn sentence(pause: &Value) -> String {
    let given = |member: &str| pause.get(member).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if pause.get("paused").and_then(Value::as_bool) != Some(true) {
        return "not paused: loops are stopped".to_owned();
    }
    let by =
        if given("by") { format!("{} ({})", cell(pause, "by"), cell(pause, "actor")) } else { cell(pause, "actor") };
    let why = if given("reason") { format!(": {}", cell(pause, "reason")) } else { String::new() };
    format!("paused until {} by {by}{why}; loops are recorded, and nothing is stopped", cell(pause, "until"))
}
