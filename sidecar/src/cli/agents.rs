//! `kill-switch agents`: what a person does to agents.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::CliError;
use super::client::{Client, Connection, agent_path, query};
use super::output::{Format, Output, cell, print, print_json, table};

/// Agents fetched with one request.
const PAGE: usize = 1_000;

#[derive(Subcommand, Debug)]
pub(super) enum AgentsCommand {
    /// List agents
    List(List),
    /// Show one agent
    Get(Target),
    /// Let an agent work again; its window starts empty
    Activate(Switch),
    /// Stop an agent
    Deactivate(Switch),
    /// Set an agent's kill switch; creates the agent if there is none
    Set(Set),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only where the id or the name contains TEXT
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    /// Only active (true) or inactive (false) ones
    #[arg(long, value_name = "BOOL")]
    active: Option<bool>,
    /// Only with the kill switch on (true) or off (false)
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// At most N
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub(super) struct Target {
    /// The agent's id
    agent_id: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub(super) struct Switch {
    #[command(flatten)]
    target: Target,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who, beyond the token's name
    #[arg(long, env = "KILL_SWITCH_BY", value_name = "NAME")]
    by: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct Set {
    #[command(flatten)]
    target: Target,
    /// Turn the kill switch on (true) or off (false)
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// How many calls to look at, 2 to 100
    #[arg(long, value_name = "N")]
    window_size: Option<f64>,
    /// The score that must be exceeded
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    threshold: Option<f64>,
    /// deactivate, block or observe
    #[arg(long)]
    action: Option<String>,
    /// progress or literal
    #[arg(long)]
    counting: Option<String>,
    /// With action block, how long to refuse
    #[arg(long, value_name = "SECONDS")]
    retry_after: Option<f64>,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
}

impl AgentsCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::List(list) => list.run().await,
            Self::Get(target) => {
                let agent = target.connection.client()?.get(&agent_path(&target.agent_id, "")).await?;
                target.show(&agent)
            }
            Self::Activate(switch) => switch.run("/activate").await,
            Self::Deactivate(switch) => switch.run("/deactivate").await,
            Self::Set(set) => set.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), CliError> {
        let client = self.connection.client()?;
        let mut agents = Vec::new();
        let mut cursor = None;
        while agents.len() < self.limit {
            let wanted = (self.limit - agents.len()).min(PAGE);
            let query = query(&[
                ("limit", Some(wanted.to_string())),
                ("q", self.query.clone()),
                ("active", self.active.map(|active| active.to_string())),
                ("kill_switch_enabled", self.enabled.map(|enabled| enabled.to_string())),
                ("cursor", cursor),
            ]);
            let page = client.get(&format!("/v1/agents?{query}")).await?;
            agents.extend(page.get("agents").and_then(Value::as_array).cloned().unwrap_or_default());
            cursor = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        if cursor.is_some() {
            eprintln!("kill-switch: there are more agents; --limit shows them");
        }
        show(&agents, self.output)
    }
}

impl Target {
    fn show(&self, agent: &Value) -> Result<(), CliError> {
        match self.output.format {
            Format::Json => print_json(agent),
            Format::Table => show(std::slice::from_ref(agent), self.output),
        }
    }
}

impl Switch {
    async fn run(self, verb: &str) -> Result<(), CliError> {
        let mut body = Map::new();
        let mut note = |field: &str, text: Option<String>| {
            text.and_then(|text| body.insert(field.to_owned(), json!(text)));
        };
        note("reason", self.reason);
        note("by", self.by);
        let client = self.target.connection.client()?;
        let path = agent_path(&self.target.agent_id, verb);
        let agent = client.send(Method::POST, &path, Some(&Value::Object(body))).await?;
        self.target.show(&agent)
    }
}

impl Set {
    async fn run(self) -> Result<(), CliError> {
        let client = self.target.connection.client()?;
        let body = self.body();
        let agent = match patch(&client, &self.target.agent_id, &body).await {
            // A policy can be set before the first request. Only if there is still none: no PUT may undo a change.
            Err(CliError::NotFound { .. }) => {
                let path = agent_path(&self.target.agent_id, "");
                client.send_if(Method::PUT, &path, Some(&body), Some(("if-none-match", "*"))).await
            }
            patched => patched,
        }?;
        self.target.show(&agent)
    }

    fn body(&self) -> Value {
        let given = [
            ("name", self.name.as_ref().map(|name| json!(name))),
            ("kill_switch_enabled", self.enabled.map(|enabled| json!(enabled))),
            ("kill_switch_window_size", self.window_size.map(|size| json!(size))),
            ("kill_switch_threshold", self.threshold.map(|threshold| json!(threshold))),
            ("action", self.action.as_ref().map(|action| json!(action))),
            ("counting", self.counting.as_ref().map(|counting| json!(counting))),
            ("retry_after_seconds", self.retry_after.map(|seconds| json!(seconds))),
        ];
        given.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect::<Map<_, _>>().into()
    }
}

async fn patch(client: &Client, agent_id: &str, body: &Value) -> Result<Value, CliError> {
    client.send(Method::PATCH, &agent_path(agent_id, ""), Some(body)).await
}

fn show(agents: &[Value], output: Output) -> Result<(), CliError> {
    if output.format == Format::Json {
        return print_json(&json!(agents));
    }
    let rows: Vec<_> = agents.iter().map(row).collect();
    print(&table(["AGENT", "STATE", "KILL SWITCH", "WINDOW", "THRESHOLD", "ACTION", "COUNTING", "LAST SEEN"], &rows))
}

fn row(agent: &Value) -> [String; 8] {
    let is = |member: &str| agent.get(member).and_then(Value::as_bool).unwrap_or_default();
    let by_kill_switch = agent.get("deactivated_by").and_then(Value::as_str) == Some("kill_switch");
    let state = match (is("active"), by_kill_switch) {
        (true, _) => "active",
        (false, true) => "deactivated by kill switch",
        (false, false) => "inactive",
    };
    [
        cell(agent, "agent_id"),
        state.to_owned(),
        if is("kill_switch_enabled") { "on" } else { "off" }.to_owned(),
        cell(agent, "kill_switch_window_size"),
        cell(agent, "kill_switch_threshold"),
        cell(agent, "action"),
        cell(agent, "counting"),
        cell(agent, "last_seen"),
    ]
}
