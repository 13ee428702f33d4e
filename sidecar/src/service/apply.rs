//! Applying a policy file: what would change, and the change itself in one transaction.
//!
//! An agent belongs to a file if the file names it, or if one of the file's rules gave it its settings. A rule governs agents
//! that traffic created: new ones, and those that nobody has changed yet. Settings that a person has chosen for an agent
//! are replaced only if a file names the agent. Only settings change. Whether an agent is active is not part of a file.
//!
//! What a file managed before and does not mention any more is left alone, unless the caller asks to prune it: then it gets
//! the default settings, or those of a rule that matches, and rules that are gone are removed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::agents::{Note, next_generation, with_defaults};
use super::policies::{Policies, governed};
use super::settings::{difference, settings};
use super::{Error, Identity, Result, Service};
use crate::model::{Agent, EventType, NewEvent, PolicyRule};

/// How to apply a file.
#[derive(Clone, Debug, Default)]
pub struct Apply {
    /// Only say what would change.
    pub dry_run: bool,
    /// Also take back what the file managed before and does not mention any more.
    pub prune: bool,
    /// The reason and the person that the events record.
    pub note: Note,
}

/// What applying a file changed, or would change.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// The name of the file.
    pub name: String,
    /// Whether nothing was changed, because only the differences were asked for.
    pub dry_run: bool,
    /// The agents that change, by id.
    pub agents: Vec<AgentStep>,
    /// The rules that change.
    pub rules: Vec<RuleStep>,
    /// How many agents the file manages that stay as they are.
    pub unchanged: u64,
    /// Agents that the file managed before and does not mention any more. They stay as they are until they are pruned.
    pub left_agents: Vec<String>,
    /// Rules that the file had before and does not have any more. They stay until they are pruned.
    pub left_rules: Vec<String>,
}

/// What happens to an agent or to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It is new.
    Created,
    /// Its settings, its file or its place change.
    Changed,
    /// The file no longer manages the agent, which gets the default settings.
    Released,
    /// The rule is removed.
    Removed,
}

/// A change to an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentStep {
    /// The agent.
    pub agent_id: String,
    /// What happens to it.
    pub step: Step,
    /// The pattern of the rule that it follows afterwards. `None` if the file names it, or no longer manages it.
    pub rule: Option<String>,
    /// What changes: `{"field": {"from": a, "to": b}}`.
    pub changes: Map<String, Value>,
}

/// A change to a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleStep {
    /// Its pattern.
    #[serde(rename = "match")]
    pub pattern: String,
    /// What happens to it.
    pub step: Step,
    /// What changes: `{"field": {"from": a, "to": b}}`.
    pub changes: Map<String, Value>,
}

/// The change of a file, worked out and not made yet.
struct Plan {
    applied: Applied,
    /// Agents to save, in the order of the steps.
    saves: Vec<Agent>,
    /// All rules that the file has afterwards.
    rules: Vec<PolicyRule>,
}

impl Service {
    /// Applies a policy file, or says what that would change. If it changes nothing, nothing is written.
    pub async fn apply_policies(&self, policies: &Policies, how: &Apply, who: &Identity) -> Result<Applied> {
        let mut tx = self.store.begin().await?;
        let rules = tx.policy_rules().await?.into_iter().filter(|rule| rule.file == policies.file).collect();
        let Plan { applied, saves, rules } = plan(policies, how, tx.all_agents().await?, rules)?;
        if how.dry_run || !applied.differs() {
            return Ok(applied);
        }
        let event = |event_type, agent_id: &str, generation, mut detail: Map<String, Value>| {
            detail.insert("file".to_owned(), json!(policies.file));
            detail.extend(how.note.by.as_ref().map(|by| ("by".to_owned(), json!(by))));
            let (agent_id, actor, reason) = (agent_id.to_owned(), who.actor.clone(), how.note.reason.clone());
            NewEvent { at_ms: self.now(), event_type, agent_id, generation, actor, reason, detail }
        };
        let mut rev = 0;
        for (step, agent) in applied.agents.iter().zip(&saves) {
            rev = tx.save_agent(agent).await?;
            let (event_type, member, value) = match step.step {
                Step::Created => (EventType::Created, "settings", settings(agent)),
                _ => (EventType::PolicyChanged, "changes", step.changes.clone()),
            };
            let detail = Map::from_iter([(member.to_owned(), Value::Object(value))]);
            self.record(&mut tx, &event(event_type, agent.id(), agent.policy.generation, detail)).await?;
        }
        tx.replace_policy_rules(&policies.file, &rules).await?;
        let detail = json!({"agents_changed": applied.agents.len(), "rules_changed": applied.rules});
        let detail = detail.as_object().cloned().unwrap_or_default();
        self.record(&mut tx, &event(EventType::PoliciesApplied, "", 0, detail)).await?;
        self.commit(tx, rev).await?;
        tracing::info!(
            file = policies.file,
            agents = applied.agents.len(),
            rules = applied.rules.len(),
            actor = who.actor,
            "policy file applied"
        );
        metrics::counter!("kill_switch_policies_applied_total").increment(1);
        Ok(applied)
    }
}

impl Applied {
    /// Whether anything changes.
    pub fn differs(&self) -> bool {
        !self.agents.is_empty() || !self.rules.is_empty()
    }
}

fn plan(policies: &Policies, how: &Apply, agents: Vec<Agent>, rules_before: Vec<PolicyRule>) -> Result<Plan> {
    let mut rules = policies.rules.clone();
    let is_kept = |rule: &PolicyRule| policies.rules.iter().any(|kept| kept.pattern == rule.pattern);
    let gone: Vec<_> = rules_before.iter().filter(|rule| !is_kept(rule)).cloned().collect();
    let mut applied = Applied {
        name: policies.file.clone(),
        dry_run: how.dry_run,
        agents: Vec::new(),
        rules: Vec::new(),
        unchanged: 0,
        left_agents: Vec::new(),
        left_rules: Vec::new(),
    };
    if !how.prune {
        applied.left_rules = gone.iter().map(|rule| rule.pattern.clone()).collect();
        rules.extend(gone);
    }
    applied.rules = rule_steps(&rules_before, &rules)?;
    let mut known: BTreeMap<_, _> = agents.into_iter().map(|agent| (agent.id().to_owned(), agent)).collect();
    for agent_id in policies.agents.keys() {
        // An agent that was deleted and comes back is a new one with a higher generation.
        let former = known.get(agent_id).map(|agent| (agent.deleted, agent.policy.generation));
        if former.is_none_or(|(deleted, _)| deleted) {
            let generation = next_generation(former.map(|(_, generation)| generation));
            known.insert(agent_id.clone(), Agent::new(agent_id, generation));
        }
    }
    let mut saves = Vec::new();
    for before in known.values().filter(|agent| !agent.deleted) {
        match desired(before, policies, &rules, how.prune)? {
            Desired::Untouched => {}
            Desired::Left => applied.left_agents.push(before.id().to_owned()),
            Desired::Is(after) => match agent_step(before, &after) {
                Some(step) => {
                    applied.agents.push(step);
                    saves.push(*after);
                }
                None => applied.unchanged += 1,
            },
        }
    }
    Ok(Plan { applied, saves, rules })
}

/// What a file wants an agent to be.
enum Desired {
    /// The file has nothing to do with it.
    Untouched,
    /// The file managed it before and does not mention it any more.
    Left,
    /// It shall be this.
    Is(Box<Agent>),
}

fn desired(before: &Agent, policies: &Policies, rules: &[PolicyRule], prune: bool) -> Result<Desired> {
    let file = policies.file.as_str();
    if let Some(change) = policies.agents.get(before.id()) {
        check_free(before, file)?;
        let mut after = governed(before, change, file, None)?;
        after.discovered = false;
        return Ok(Desired::Is(Box::new(after)));
    }
    let rule = rules.iter().find(|rule| rule.matches(before.id()));
    let is_managed = before.managed_by.as_deref() == Some(file);
    match rule {
        _ if is_managed && before.managed_rule.is_none() && !prune => Ok(Desired::Left),
        Some(rule) if is_managed || (before.managed_by.is_none() && before.discovered) => {
            Ok(Desired::Is(Box::new(rule.applied_to(before)?)))
        }
        None if is_managed => {
            // As if nobody had ever changed it, so that a later rule may apply to it.
            let discovered = before.first_seen_ms.is_some();
            let (name, managed_by, managed_rule) = (before.name.clone(), None, None);
            Ok(Desired::Is(Box::new(Agent { name, managed_by, managed_rule, discovered, ..with_defaults(before) })))
        }
        _ => Ok(Desired::Untouched),
    }
}

/// Refuses to take an agent away from another file that names it. Two files would take it from each other for ever.
fn check_free(agent: &Agent, file: &str) -> Result<()> {
    match (&agent.managed_by, &agent.managed_rule) {
        (Some(other), None) if other != file => {
            let place = format!("agents[{}]", json!(agent.id()));
            let detail = format!("{place} is managed by the policy file {other}: remove it there with --prune first");
            Err(Error::invalid(place, detail))
        }
        _ => Ok(()),
    }
}

/// Returns how two states of an agent differ. `None` if they do not.
fn agent_step(before: &Agent, after: &Agent) -> Option<AgentStep> {
    let mut changes = difference(before, after);
    for (field, from, to) in [
        ("managed_by", &before.managed_by, &after.managed_by),
        ("managed_rule", &before.managed_rule, &after.managed_rule),
    ] {
        if from != to {
            changes.insert(field.to_owned(), json!({"from": from, "to": to}));
        }
    }
    let step = match (before.rev, &after.managed_by) {
        (0, _) => Step::Created,
        (_, None) => Step::Released,
        _ => Step::Changed,
    };
    let rule = after.managed_rule.clone();
    (!changes.is_empty()).then(|| AgentStep { agent_id: after.id().to_owned(), step, rule, changes })
}

/// Returns how two lists of rules differ. The places of rules matter only among those that stay.
fn rule_steps(before: &[PolicyRule], after: &[PolicyRule]) -> Result<Vec<RuleStep>> {
    let defaults = Agent::new("any", 1);
    let find = |rules: &[PolicyRule], pattern: &str| rules.iter().position(|rule| rule.pattern == pattern);
    let mut steps = Vec::new();
    let mut last = None;
    for rule in after {
        let place = find(before, &rule.pattern);
        let old = match place.and_then(|place| before.get(place)) {
            // Settings that this version does not understand are replaced like any others.
            Some(old) => old.applied_to(&defaults).unwrap_or_else(|_| defaults.clone()),
            None => defaults.clone(),
        };
        let mut changes = difference(&old, &rule.applied_to(&defaults)?);
        if place.is_some() && place < last {
            changes.insert("position".to_owned(), json!({"from": "earlier", "to": "later"}));
        }
        let step = if place.is_some() { Step::Changed } else { Step::Created };
        if step == Step::Created || !changes.is_empty() {
            steps.push(RuleStep { pattern: rule.pattern.clone(), step, changes });
        }
        last = last.max(place);
    }
    for rule in before.iter().filter(|rule| find(after, &rule.pattern).is_none()) {
        steps.push(RuleStep { pattern: rule.pattern.clone(), step: Step::Removed, changes: Map::new() });
    }
    Ok(steps)
}
