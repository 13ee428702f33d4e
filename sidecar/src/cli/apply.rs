//! `kill-switch apply`: applies a policy file, or shows what that would change.
//!
//! The file is YAML, of which JSON is a part. It is turned into JSON here, and the server checks it, so that the command
//! line and the API refuse the same files with the same messages.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use agent_kill_switch::printable::printable;
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value};
use serde_yaml_ng::Value as Yaml;

use super::CliError;
use super::agents::Note;
use super::client::{ServerOptions, path, query};
use super::export::DEFAULT_NAME;
use super::output::{Format, cell, list, print, print_json};

#[derive(Args, Debug)]
pub(super) struct ApplyOptions {
    /// The policy file, YAML or JSON; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Only show what would change, and exit with 7 if anything would
    #[arg(long)]
    dry_run: bool,
    /// Also take back what the file managed before and does not mention any more
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    note: Note,
    #[command(flatten)]
    server: ServerOptions,
}

impl ApplyOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let document = read(&self.file)?;
        let name = document.get("name").and_then(Value::as_str).unwrap_or(DEFAULT_NAME);
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let parameters = query(&[
            ("dry_run", flag(self.dry_run)),
            ("prune", flag(self.prune)),
            ("reason", self.note.reason),
            ("by", self.note.by),
        ]);
        let client = self.server.client()?;
        let request = client.request(Method::PUT, &format!("{}?{parameters}", path(["policies", name])));
        let applied = client.send(request.json(&document)).await.map_err(|error| match error {
            CliError::Refused(detail) => refused(&self.file, &detail),
            other => other,
        })?;
        match self.server.format {
            Format::Json => print_json(&applied)?,
            Format::Table => print(&difference(&applied))?,
        }
        let differs = !list(&applied, "agents").is_empty() || !list(&applied, "rules").is_empty();
        if self.dry_run && differs { Err(CliError::Differences) } else { Ok(()) }
    }
}

fn refused(file: &Path, detail: &str) -> CliError {
    CliError::Refused(format!("{}: {detail}", file.display()))
}

fn read(file: &Path) -> Result<Map<String, Value>, CliError> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| CliError::file(file, error))?;
    let refused = |detail: String| refused(file, &printable(&detail));
    let mut yaml: Yaml = serde_yaml_ng::from_str(&text).map_err(|error| refused(error.to_string()))?;
    yaml.apply_merge().map_err(|error| refused(error.to_string()))?;
    match json(yaml).map_err(refused)? {
        Value::Object(document) => Ok(document),
        _ => Err(refused("must be a mapping with the members version, agents and rules".to_owned())),
    }
}

/// Turns YAML into JSON. A key that is a number, such as an agent's id, becomes a text.
fn json(yaml: Yaml) -> Result<Value, String> {
    Ok(match yaml {
        Yaml::Mapping(members) => {
            let mut object = Map::new();
            for (key, value) in members {
                let key = match key {
                    Yaml::String(key) => key,
                    Yaml::Number(key) => key.to_string(),
                    other => return Err(format!("a key must be a text: {other:?}")),
                };
                object.insert(key, json(value)?);
            }
            Value::Object(object)
        }
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(json).collect::<Result<_, _>>()?),
        Yaml::Tagged(tagged) => return Err(format!("the tag {} is not understood", tagged.tag)),
        scalar => serde_json::to_value(scalar).map_err(|error| error.to_string())?,
    })
}

/// Says what changes: one line for each agent and rule, and below it one for each setting.
fn difference(applied: &Value) -> String {
    let mut text = String::new();
    for (kind, id) in [("rule", "match"), ("agent", "agent_id")] {
        for step in list(applied, &format!("{kind}s")) {
            let (mark, note) = match step.get("step").and_then(Value::as_str) {
                Some("created") => ("+", ""),
                Some("removed") => ("-", ""),
                Some("released") => ("-", "  returns to the defaults, and is no longer managed"),
                _ => ("~", ""),
            };
            let rule = step.get("rule").and_then(Value::as_str).map(|rule| format!("  by rule {}", printable(rule)));
            let _ = writeln!(text, "{mark} {kind} {}{}{note}", cell(&step, id), rule.unwrap_or_default());
            for (field, change) in step.get("changes").and_then(Value::as_object).into_iter().flatten() {
                let field = field.trim_start_matches("kill_switch_");
                let _ = writeln!(text, "    {field}: {} -> {}", cell(change, "from"), cell(change, "to"));
            }
        }
    }
    for (member, kind) in [("left_agents", "agent"), ("left_rules", "rule")] {
        for left in list(applied, member) {
            let left = printable(left.as_str().unwrap_or_default());
            let _ = writeln!(text, "  {kind} {left}  is no longer in the file; --prune takes it back");
        }
    }
    text + &summary(applied)
}

fn summary(applied: &Value) -> String {
    let count = |many: u64, one: &str| if many == 1 { format!("1 {one}") } else { format!("{many} {one}s") };
    let length = |member: &str| list(applied, member).len() as u64;
    let (agents, rules) = (count(length("agents"), "agent"), count(length("rules"), "rule"));
    let unchanged = count(applied.get("unchanged").and_then(Value::as_u64).unwrap_or_default(), "agent");
    let verb = if applied.get("dry_run").and_then(Value::as_bool) == Some(true) { "would change" } else { "changed" };
    format!("{}: {agents} and {rules} {verb}, {unchanged} unchanged\n", cell(applied, "name"))
}
