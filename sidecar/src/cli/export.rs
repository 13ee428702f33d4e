//! `kill-switch export`: prints the policies in force as a policy file.

use clap::Args;
use serde_json::Value;
use serde_yaml_ng::{Mapping, Value as Yaml};

use super::CliError;
use super::client::{ServerOptions, path};
use super::output::{Format, print, print_json};

/// The name of a policy file that does not say how it is called.
pub(super) const DEFAULT_NAME: &str = "policies";
/// The format of policy files.
const SCHEMA: &str = include_str!("../../policies.schema.json");

#[derive(Args, Debug)]
pub(super) struct ExportOptions {
    /// Only what the policy file NAME manages; without it, also the agents that people have changed and no file manages
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the JSON schema of policy files instead
    #[arg(long, conflicts_with = "name")]
    schema: bool,
    #[command(flatten)]
    server: ServerOptions,
}

impl ExportOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        if self.schema {
            return print(SCHEMA);
        }
        let path = match &self.name {
            Some(name) => path(["policies", name]),
            None => path(["policies", DEFAULT_NAME]) + "?unmanaged=true",
        };
        let document = self.server.client()?.get(&path).await?;
        match self.server.format {
            Format::Json => print_json(&document),
            Format::Table => print(&yaml(&document)?),
        }
    }
}

/// Writes a document as YAML, its members and those of its rules in the order in which a person reads them.
fn yaml(document: &Value) -> Result<String, CliError> {
    let mut ordered = Mapping::new();
    for member in ["version", "name", "agents", "rules"] {
        let value = document.get(member).cloned().unwrap_or_default();
        ordered.insert(member.into(), converted(&value)?);
    }
    if let Some(rules) = ordered.get_mut("rules").and_then(Yaml::as_sequence_mut) {
        for rule in rules.iter_mut().filter_map(Yaml::as_mapping_mut) {
            let mut first = Mapping::from_iter(rule.remove("match").map(|pattern| ("match".into(), pattern)));
            first.extend(std::mem::take(rule));
            *rule = first;
        }
    }
    serde_yaml_ng::to_string(&ordered).map_err(unwritable)
}

fn converted(value: &Value) -> Result<Yaml, CliError> {
    serde_yaml_ng::to_value(value).map_err(unwritable)
}

fn unwritable(error: serde_yaml_ng::Error) -> CliError {
    CliError::Refused(format!("the policies cannot be written as YAML: {error}"))
}
