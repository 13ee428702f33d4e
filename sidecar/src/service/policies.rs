//! Policy files: the settings of agents as a document that people keep beside their code and review like code.
//!
//! A file has a name, and manages the agents that it names and those that one of its rules gave their settings. What it says
//! about an agent is complete: a setting that it does not mention has its default. The document is read by hand, because a
//! person needs to know at which place of the file something is wrong. `policies.schema.json` describes the same format
//! for editors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::agents::check_agent_id;
use super::settings::{Change, Names, clip, difference, must_be, short};
use super::{Error, Result, Service};
use crate::model::{Agent, PolicyRule};
use crate::store::AgentQuery;

/// The version of the format.
const VERSION: u64 = 1;
/// The longest name of a file.
const MAX_FILE_NAME: usize = 64;
/// The longest pattern of a rule, which is also the longest id of an agent.
const MAX_PATTERN: usize = 128;
/// The largest number of rules in a file. Each new agent is compared with all of them.
const MAX_RULES: usize = 1_000;

/// The content of a policy file.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// The name of the file.
    pub(super) file: String,
    /// The agents that it names.
    pub(super) agents: BTreeMap<String, Change>,
    /// Its rules, in the order in which they are tried.
    pub(super) rules: Vec<PolicyRule>,
}

impl Policies {
    /// Parses the document of the file with this name. An error names the place in the document, such as
    /// `agents["team-a/x"].threshold`.
    pub fn parse(file: &str, document: &Map<String, Value>) -> Result<Self> {
        check_file_name(file)?;
        if let Some(unknown) = document.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
            let detail = format!("{} is not a member of a policy file: {}", clip(unknown), MEMBERS.join(", "));
            return Err(Error::invalid(clip(unknown), detail));
        }
        let version = document.get("version").unwrap_or(&Value::Null);
        if version.as_u64() != Some(VERSION) {
            return Err(must_be("version", version, "1"));
        }
        if let Some(name) = document.get("name").filter(|name| name.as_str() != Some(file)) {
            return Err(must_be("name", name, &format!("{file}, as in the address")));
        }
        let empty = Map::new();
        let defaults = settings("defaults", document.get("defaults").unwrap_or(&Value::Null), &empty)?;
        refuse_name("defaults", &defaults)?;
        Ok(Self {
            file: file.to_owned(),
            agents: agents(document.get("agents").unwrap_or(&Value::Null), &defaults)?,
            rules: rules(file, document.get("rules").unwrap_or(&Value::Null), &defaults)?,
        })
    }
}

const EVERY_AGENT: AgentQuery = AgentQuery {
    after: None,
    search: None,
    active: None,
    deactivated_by: None,
    kill_switch_enabled: None,
    observing: None,
    limit: u32::MAX,
};
const MEMBERS: [&str; 5] = ["version", "name", "defaults", "agents", "rules"];

fn check_file_name(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=MAX_FILE_NAME).contains(&name.len()) && name.chars().all(is_allowed) && !name.starts_with('.') {
        return Ok(());
    }
    let detail = format!("name must be 1 to {MAX_FILE_NAME} characters of A-Z a-z 0-9 . _ - and not begin with a dot");
    Err(Error::invalid("name", detail))
}

fn agents(value: &Value, defaults: &Map<String, Value>) -> Result<BTreeMap<String, Change>> {
    let mut agents = BTreeMap::new();
    for (agent_id, value) in object("agents", value)? {
        let place = format!("agents[{}]", json!(clip(&agent_id)));
        check_agent_id(&agent_id).map_err(|error| placed(&place, error))?;
        let settings = settings(&place, &value, defaults)?;
        agents.insert(agent_id, change(&place, &settings)?);
    }
    Ok(agents)
}

fn rules(file: &str, value: &Value, defaults: &Map<String, Value>) -> Result<Vec<PolicyRule>> {
    let listed = match value {
        Value::Null => &Vec::new(),
        value => value.as_array().ok_or_else(|| must_be("rules", value, "a list"))?,
    };
    if listed.len() > MAX_RULES {
        return Err(Error::invalid("rules", format!("rules must be at most {MAX_RULES}")));
    }
    let mut seen = BTreeSet::new();
    let mut rules = Vec::new();
    for (index, value) in listed.iter().enumerate() {
        let place = format!("rules[{index}]");
        let mut members = object(&place, value)?;
        let pattern = members.remove("match").unwrap_or_default();
        let pattern = pattern.as_str().filter(|pattern| is_pattern(pattern)).map(str::to_owned).ok_or_else(|| {
            let expected = format!("1 to {MAX_PATTERN} characters of A-Z a-z 0-9 . _ : @ / - and *");
            placed(&place, must_be("match", &pattern, &expected))
        })?;
        refuse_name(&place, &members)?;
        let settings = settings(&place, &Value::Object(members), defaults)?;
        change(&place, &settings)?;
        if !seen.insert(pattern.clone()) {
            let detail = format!("{place}: match ({pattern}) is the same as in an earlier rule, which always applies");
            return Err(Error::invalid(format!("{place}.match"), detail));
        }
        rules.push(PolicyRule { file: file.to_owned(), pattern, settings });
    }
    Ok(rules)
}

fn is_pattern(pattern: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._:@/-*".contains(c);
    (1..=MAX_PATTERN).contains(&pattern.len()) && pattern.chars().all(is_allowed)
}

/// Returns the settings at one place of the file, completed by the defaults of the file. Whether they are within their bounds
/// together is checked by [`change`].
fn settings(place: &str, value: &Value, defaults: &Map<String, Value>) -> Result<Map<String, Value>> {
    let members = object(place, value)?;
    if let Some(long) = members.keys().find(|name| short(name) != *name) {
        let detail = format!("{place}: {long} is called {} in a policy file", short(long));
        return Err(Error::invalid(format!("{place}.{long}"), detail));
    }
    Change::parse(&members, Names::File).map_err(|error| placed(place, error))?;
    let mut settings = defaults.clone();
    settings.extend(members);
    Ok(settings)
}

/// Parses settings, and checks that they are within their bounds together.
fn change(place: &str, settings: &Map<String, Value>) -> Result<Change> {
    let change = Change::parse(settings, Names::File).map_err(|error| placed(place, error))?;
    change.apply(&mut Agent::new("any", 1)).map_err(|error| placed(place, error))?;
    Ok(change)
}

fn refuse_name(place: &str, settings: &Map<String, Value>) -> Result<()> {
    match settings.contains_key("name") {
        true => Err(Error::invalid(format!("{place}.name"), format!("{place}: name can only be given to one agent"))),
        false => Ok(()),
    }
}

/// Returns the members of an object. One that is left empty has none.
fn object(place: &str, value: &Value) -> Result<Map<String, Value>> {
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(members) => Ok(members.clone()),
        other => Err(must_be(place, other, "a mapping")),
    }
}

/// Adds to an error about a field where in the file the field is, and uses the name that the field has there.
fn placed(place: &str, error: Error) -> Error {
    match error {
        Error::Invalid { field, detail } => {
            let name = short(&field);
            Error::invalid(format!("{place}.{name}"), format!("{place}: {}", detail.replace(&field, name)))
        }
        other => other,
    }
}

impl PolicyRule {
    /// Returns the agent with the settings of this rule.
    pub(super) fn applied_to(&self, agent: &Agent) -> Result<Agent> {
        let change = Change::parse(&self.settings, Names::File)?;
        governed(agent, &change, &self.file, Some(&self.pattern))
    }
}

/// Returns the agent with exactly these settings, managed by a file. Its name stays, unless the settings give it one.
pub(super) fn governed(agent: &Agent, change: &Change, file: &str, rule: Option<&str>) -> Result<Agent> {
    let mut governed = super::agents::with_defaults(agent);
    governed.name.clone_from(&agent.name);
    change.apply(&mut governed)?;
    governed.managed_by = Some(file.to_owned());
    governed.managed_rule = rule.map(str::to_owned);
    Ok(governed)
}

/// Applies the first rule that matches to an agent that traffic has just created.
///
/// A rule with settings that this version does not understand is ignored with a warning: an agent must be known even if
/// its policy is not.
pub(super) fn govern_new(agent: &mut Agent, rules: &[PolicyRule]) {
    let Some(rule) = rules.iter().find(|rule| rule.matches(agent.id())) else { return };
    match rule.applied_to(agent) {
        Ok(governed) => *agent = governed,
        Err(error) => {
            tracing::warn!(agent_id = agent.id(), file = rule.file, pattern = rule.pattern, %error,
                "the agent has the default policy, because its rule cannot be applied");
        }
    }
}

/// A policy file that manages something.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PolicyFile {
    /// Its name.
    pub name: String,
    /// How many agents it manages.
    pub agents: u64,
    /// How many rules it has.
    pub rules: u64,
}

impl Service {
    /// Returns the policy files that manage something, by name.
    pub async fn policy_files(&self) -> Result<Vec<PolicyFile>> {
        let mut files: BTreeMap<String, PolicyFile> = BTreeMap::new();
        for file in self.store.agents(&EVERY_AGENT).await?.into_iter().filter_map(|agent| agent.managed_by) {
            files.entry(file).or_default().agents += 1;
        }
        for rule in self.store.policy_rules().await? {
            files.entry(rule.file).or_default().rules += 1;
        }
        Ok(files.into_iter().map(|(name, file)| PolicyFile { name, ..file }).collect())
    }

    /// Returns a document that describes what is in force: what a file manages and, if `unmanaged`, also the agents that a
    /// person has changed and no file manages. Applying it changes no setting.
    ///
    /// An agent whose settings differ from its rule, because a person has changed them, is named.
    pub async fn export_policies(&self, file: &str, unmanaged: bool) -> Result<Value> {
        check_file_name(file)?;
        let rules: Vec<_> = self.store.policy_rules().await?.into_iter().filter(|rule| rule.file == file).collect();
        let mut agents = Map::new();
        let mut found = !rules.is_empty();
        for agent in &self.store.agents(&EVERY_AGENT).await? {
            let is_of_file = agent.managed_by.as_deref() == Some(file);
            found |= is_of_file;
            let is_changed = unmanaged && agent.managed_by.is_none() && !agent.discovered;
            let rule = rules.iter().find(|rule| Some(&rule.pattern) == agent.managed_rule.as_ref());
            let follows_rule = is_of_file
                && rule.and_then(|rule| rule.applied_to(agent).ok()).is_some_and(|ruled| ruled.policy == agent.policy);
            if (is_of_file && !follows_rule) || is_changed {
                agents.insert(agent.id().to_owned(), Value::Object(named_settings(agent)));
            }
        }
        if !found && !unmanaged {
            return Err(Error::NotFound { what: "policy file", id: file.to_owned() });
        }
        let rules: Vec<_> = rules.into_iter().map(listed).collect();
        Ok(json!({"version": VERSION, "name": file, "agents": agents, "rules": rules}))
    }
}

/// Returns the settings of an agent that differ from their defaults, and whether the kill switch is on.
fn named_settings(agent: &Agent) -> Map<String, Value> {
    let changes = difference(&Agent::new(agent.id(), 1), agent);
    let mut settings = Map::new();
    settings.insert("enabled".to_owned(), json!(agent.policy.kill_switch_enabled));
    for (field, change) in changes {
        settings.insert(short(&field).to_owned(), change.get("to").cloned().unwrap_or_default());
    }
    settings
}

fn listed(rule: PolicyRule) -> Value {
    let mut members = rule.settings;
    members.insert("match".to_owned(), json!(rule.pattern));
    Value::Object(members)
}
