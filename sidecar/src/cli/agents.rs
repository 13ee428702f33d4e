//! `kill-switch agents`: lists agents and their stopped conversations, activates and deactivates them, and changes their
//! policies.

use clap::{Args, Subcommand};
use reqwest::Method;
use reqwest::header::{HeaderValue, IF_MATCH};
use serde_json::{Map, Value};

use super::CliError;
use super::client::{Client, PAGE, ServerOptions, path};
use super::output::{Format, cell, cells, list, print, print_json, print_list};

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
    /// Change an agent's policy; creates the agent if there is none
    Set(Set),
    /// List the conversations of an agent that are stopped, the newest first
    Sessions(Target),
    /// Let a stopped conversation go on; its window starts empty
    Resume(Resume),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only agents whose id or name contains TEXT
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    /// Only active (true) or inactive (false) agents
    #[arg(long, value_name = "BOOL")]
    active: Option<bool>,
    /// Only agents with the kill switch on (true) or off (false)
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// List at most N agents
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
pub(super) struct Target {
    /// The agent's id
    agent_id: String,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
pub(super) struct Switch {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    note: Note,
}

#[derive(Args, Debug)]
pub(super) struct Resume {
    #[command(flatten)]
    target: Target,
    /// The conversation's key, as `sessions` lists it
    session_key: String,
    #[command(flatten)]
    note: Note,
}

/// Why a change is made, and by whom.
#[derive(Args, Debug)]
pub(super) struct Note {
    /// The reason, which the event records
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// Who does it, in addition to the token's name
    #[arg(long, env = "KILL_SWITCH_BY", value_name = "NAME")]
    pub(super) by: Option<String>,
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
    /// How long the action block refuses requests
    #[arg(long, value_name = "SECONDS")]
    retry_after: Option<f64>,
    /// After how long a silence a run is over, 0 to 86400; 0 means never
    #[arg(long, value_name = "SECONDS")]
    idle_reset_seconds: Option<f64>,
    /// What a loop stops: agent or session
    #[arg(long)]
    scope: Option<String>,
    /// How long the scope session stops a conversation, 1 to 604800
    #[arg(long, value_name = "SECONDS")]
    session_stop_seconds: Option<f64>,
    /// How many conversations stopped within an hour deactivate the agent, 0 to 64; 0 means never
    #[arg(long, value_name = "N")]
    escalate_after: Option<f64>,
    /// What to do when the model repeats itself within one answer: off, observe or cut
    #[arg(long, value_name = "MODE")]
    answer_loop: Option<String>,
    /// Count the calls of a tool never (NAME=ignore), only from N times on (NAME=N, 2 to 100), or as usual (NAME=default);
    /// may be given several times, and other tools stay as they are
    #[arg(long = "tool", value_name = "NAME=RULE", value_parser = tool_rule)]
    tools: Vec<(String, Option<Value>)>,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
}

impl AgentsCommand {
    pub(super) async fn run(self) -> Result<(), CliError> {
        match self {
            Self::List(list) => list.run().await,
            Self::Get(target) => {
                let client = target.server.client()?;
                let agent = client.get(&path(["agents", &target.agent_id])).await?;
                let fleet = match client.get(&path(["agents", &target.agent_id, "fleet"])).await {
                    // An older sidecar does not know which Envoys serve an agent.
                    Err(CliError::NotFound(_)) => Value::Null,
                    fleet => fleet?,
                };
                target.show_with_fleet(agent, fleet)
            }
            Self::Activate(switch) => switch.run("activate").await,
            Self::Deactivate(switch) => switch.run("deactivate").await,
            Self::Set(set) => set.run().await,
            Self::Sessions(target) => target.sessions().await,
            Self::Resume(resume) => resume.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<(), CliError> {
        let filter = [
            ("q", self.query),
            ("active", self.active.map(|active| active.to_string())),
            ("kill_switch_enabled", self.enabled.map(|enabled| enabled.to_string())),
        ];
        let (agents, has_more) = self.server.client()?.pages("agents", &filter, self.limit).await?;
        if has_more {
            eprintln!("kill-switch: there are more agents; use a higher --limit to list them");
        }
        print_list(self.server.format, agents, HEADING, row)
    }
}

impl Target {
    fn show(&self, agent: Value) -> Result<(), CliError> {
        match self.server.format {
            Format::Json => print_json(&agent),
            Format::Table => print_list(Format::Table, vec![agent], HEADING, row),
        }
    }

    fn show_with_fleet(&self, mut agent: Value, fleet: Value) -> Result<(), CliError> {
        let parts = list(&fleet, "envoys");
        if let (Format::Json, Some(members)) = (self.server.format, agent.as_object_mut()) {
            members.insert("fleet".to_owned(), fleet);
            return self.show(agent);
        }
        self.show(agent)?;
        if parts.is_empty() {
            return Ok(());
        }
        let (envoys, score) = (parts.len(), cell(&fleet, "score"));
        print(&format!("\nEnvoys that serve the agent: {envoys}. Score of all calls together: {score}\n"))?;
        print_list(Format::Table, parts, FLEET_HEADING, |part| cells(part, ["envoy", "score", "last_call"]))
    }

    async fn sessions(self) -> Result<(), CliError> {
        let path = format!("{}?limit={PAGE}", path(["agents", &self.agent_id, "sessions"]));
        let page = self.server.client()?.get(&path).await?;
        if page.get("next_cursor").is_some_and(|cursor| !cursor.is_null()) {
            eprintln!("kill-switch: there are more than {PAGE} stopped conversations; the others are not listed");
        }
        print_list(self.server.format, list(&page, "sessions"), SESSION_HEADING, session_row)
    }
}

impl Switch {
    async fn run(self, verb: &str) -> Result<(), CliError> {
        let client = self.target.server.client()?;
        let path = path(["agents", &self.target.agent_id, verb]);
        let agent = client.send(client.request(Method::POST, &path).json(&self.note.body())).await?;
        self.target.show(agent)
    }
}

impl Resume {
    async fn run(self) -> Result<(), CliError> {
        let server = &self.target.server;
        let client = server.client()?;
        let path = path(["agents", &self.target.agent_id, "sessions", &self.session_key, "resume"]);
        let session = client.send(client.request(Method::POST, &path).json(&self.note.body())).await?;
        match server.format {
            Format::Json => print_json(&session),
            Format::Table => print_list(Format::Table, vec![session], SESSION_HEADING, session_row),
        }
    }
}

impl Note {
    pub(super) fn body(self) -> Map<String, Value> {
        object([("reason", self.reason.map(Value::from)), ("by", self.by.map(Value::from))])
    }
}

impl Set {
    async fn run(self) -> Result<(), CliError> {
        let client = self.target.server.client()?;
        let path = path(["agents", &self.target.agent_id]);
        let (tools, revision) = match self.tools.is_empty() {
            true => (None, None),
            false => changed_tools(&client, &path, self.tools).await?,
        };
        let body = object([
            ("name", self.name.map(Value::from)),
            ("kill_switch_enabled", self.enabled.map(Value::from)),
            ("kill_switch_window_size", self.window_size.map(Value::from)),
            ("kill_switch_threshold", self.threshold.map(Value::from)),
            ("action", self.action.map(Value::from)),
            ("counting", self.counting.map(Value::from)),
            ("retry_after_seconds", self.retry_after.map(Value::from)),
            ("idle_reset_seconds", self.idle_reset_seconds.map(Value::from)),
            ("scope", self.scope.map(Value::from)),
            ("session_stop_seconds", self.session_stop_seconds.map(Value::from)),
            ("escalate_after", self.escalate_after.map(Value::from)),
            ("answer_loop", self.answer_loop.map(Value::from)),
            ("tools", tools.map(Value::from)),
        ]);
        let mut patch = client.request(Method::PATCH, &path);
        if let Some(revision) = revision {
            patch = patch.header(IF_MATCH, revision);
        }
        let agent = match client.send(patch.json(&body)).await {
            // A policy may be set before the agent's first request. The condition keeps this PUT from overwriting an
            // agent that somebody else has created in the meantime.
            Err(CliError::NotFound(_)) => {
                let put = client.request(Method::PUT, &path).header("if-none-match", "*");
                client.send(put.json(&body)).await
            }
            patched => patched,
        }?;
        self.target.show(agent)
    }
}

/// Reads the agent's rules of tools, and applies changes to them. Also returns the revision that they were read from.
async fn changed_tools(
    client: &Client,
    path: &str,
    changes: Vec<(String, Option<Value>)>,
) -> Result<(Option<Map<String, Value>>, Option<HeaderValue>), CliError> {
    let (agent, revision) = match client.send_for_etag(client.request(Method::GET, path)).await {
        Err(CliError::NotFound(_)) => (Value::Null, None),
        found => found?,
    };
    let mut tools = agent.get("tools").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, rule) in changes {
        match rule {
            Some(rule) => tools.insert(name, rule),
            None => tools.remove(&name),
        };
    }
    Ok((Some(tools), revision))
}

/// Parses `NAME=ignore`, `NAME=20` or `NAME=default`. The server refuses other rules by name.
pub(super) fn tool_rule(given: &str) -> Result<(String, Option<Value>), String> {
    let (name, rule) = given.rsplit_once('=').ok_or("must be NAME=ignore, NAME=N or NAME=default")?;
    let rule = match rule {
        "default" => None,
        _ => Some(rule.parse::<u64>().map_or_else(|_| Value::from(rule), Value::from)),
    };
    Ok((name.to_owned(), rule))
}

/// Builds an object of those fields that have a value.
pub(super) fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

const FLEET_HEADING: [&str; 3] = ["ENVOY", "ITS OWN SCORE", "LAST CALL"];

const SESSION_HEADING: [&str; 6] = ["KEY", "SESSION", "ACTION", "STOPPED", "UNTIL", "REASON"];

fn session_row(session: &Value) -> [String; 6] {
    cells(session, ["session_key", "session", "action", "stopped", "until", "reason"])
}

const HEADING: [&str; 9] =
    ["AGENT", "STATE", "KILL SWITCH", "WINDOW", "THRESHOLD", "ACTION", "SCOPE", "COUNTING", "LAST SEEN"];

fn row(agent: &Value) -> [String; 9] {
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
        cell(agent, "scope"),
        cell(agent, "counting"),
        cell(agent, "last_seen"),
    ]
}
