//! What a person can do with an agent: create it, change its settings, activate, deactivate and delete it.
//!
//! A change that changes nothing increments no revision and records no event. Activation always changes something: it
//! increments the generation, which invalidates every window and every kill report of the time before.

use agent_kill_switch::identity::is_agent_id;
use agent_kill_switch::wire::{DeactivatedBy, ScoreSample};
use serde_json::{Map, Value, json};

use super::settings::{Change, MAX_NAME, difference, settings};
use super::{Error, Identity, Result, Service};
use crate::model::{Agent, EventType, Millis, NewEvent};
use crate::store::{AgentQuery, Tx};

/// The longest reason that a person may give, in characters.
const MAX_REASON: usize = 1_000;

/// What must be true of an agent before it is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// The agent exists.
    Exists,
    /// The agent does not exist.
    Absent,
    /// The latest revision of the agent is one of these.
    Revision(Vec<u64>),
}

impl Precondition {
    fn check(&self, agent_id: &str, agent: Option<&Agent>) -> Result<()> {
        let holds = match self {
            Self::None => true,
            Self::Exists => agent.is_some(),
            Self::Absent => agent.is_none(),
            Self::Revision(revs) => agent.is_some_and(|agent| revs.contains(&agent.rev)),
        };
        if holds { Ok(()) } else { Err(Error::Precondition { agent_id: agent_id.to_owned() }) }
    }
}

/// Who asks for a change, and under which condition.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The identity of the credential used.
    pub who: Identity,
    /// What must be true for the change to be made.
    pub precondition: Precondition,
}

/// The reason that a person gives for a change, and the name of that person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    pub(super) reason: String,
    pub(super) by: Option<String>,
}

impl Note {
    /// Parses `{"reason": ..., "by": ...}`. Both members are optional.
    pub fn parse(body: &Map<String, Value>) -> Result<Self> {
        Self::parse_beside(body, "reason and by")
    }

    /// Like [`Self::parse`]. `known` lists what may be in the request, for the message about anything else.
    pub(super) fn parse_beside(body: &Map<String, Value>, known: &str) -> Result<Self> {
        let mut note = Self::default();
        for (field, value) in body {
            match field.as_str() {
                "reason" => note.reason = text(field, value, MAX_REASON)?,
                "by" => note.by = Some(text(field, value, MAX_NAME)?),
                _ => return Err(Error::invalid(field, format!("only {known} are understood here"))),
            }
        }
        Ok(note)
    }
}

fn text(field: &str, value: &Value, max_chars: usize) -> Result<String> {
    let is_refused = |c: char| c.is_control() && c != '\n' && c != '\t';
    match value.as_str() {
        Some(text) if text.chars().count() <= max_chars && !text.chars().any(is_refused) => Ok(text.to_owned()),
        _ => Err(Error::invalid(field, format!("{field} must be a text of at most {max_chars} characters"))),
    }
}

/// Returns an error if the text is not a valid agent id.
pub(super) fn check_agent_id(agent_id: &str) -> Result<()> {
    if is_agent_id(agent_id.as_bytes()) {
        return Ok(());
    }
    Err(Error::invalid("agent_id", "agent_id must be 1 to 128 characters of A-Z a-z 0-9 . _ : @ / - and not . or .."))
}

impl Service {
    /// Returns an agent.
    pub async fn agent(&self, agent_id: &str) -> Result<Agent> {
        check_agent_id(agent_id)?;
        self.store.agent(agent_id).await?.ok_or_else(|| Error::no_agent(agent_id))
    }

    /// Returns a page of agents.
    pub async fn agents(&self, query: &AgentQuery) -> Result<Vec<Agent>> {
        Ok(self.store.agents(query).await?)
    }

    /// Returns the latest scores of an agent, oldest first.
    pub async fn scores(&self, agent_id: &str, since_ms: Millis, limit: u32) -> Result<Vec<ScoreSample>> {
        self.agent(agent_id).await?;
        Ok(self.store.scores(agent_id, since_ms, limit).await?)
    }

    /// Creates an agent, or replaces all its settings. Settings that `change` does not name get their defaults. Returns
    /// the agent and whether it is new.
    pub async fn put_agent(&self, agent_id: &str, change: &Change, caller: &Caller) -> Result<(Agent, bool)> {
        let edit = self.edit(agent_id, caller).await?;
        let mut agent = match &edit.before {
            Some(before) => with_defaults(before),
            None => Agent::new(agent_id, next_generation(edit.last_generation)),
        };
        change.apply(&mut agent)?;
        let is_new = edit.before.is_none();
        Ok((self.save_settings(edit, agent).await?, is_new))
    }

    /// Changes the settings that `change` names.
    pub async fn patch_agent(&self, agent_id: &str, change: &Change, caller: &Caller) -> Result<Agent> {
        let edit = self.edit(agent_id, caller).await?;
        let mut agent = edit.existing()?;
        change.apply(&mut agent)?;
        self.save_settings(edit, agent).await
    }

    /// Activates an agent. Its window starts empty, and its stopped conversations go on.
    ///
    /// An agent that is active already is activated again: an Envoy may have killed it without being able to report that.
    pub async fn activate(&self, agent_id: &str, note: &Note, caller: &Caller) -> Result<Agent> {
        let edit = self.edit(agent_id, caller).await?;
        let mut agent = edit.existing()?;
        let was = agent.policy.deactivated_by;
        agent.policy.active = true;
        agent.policy.deactivated_by = None;
        agent.policy.reason = None;
        agent.policy.generation += 1;
        let detail = json!({"was_deactivated_by": was});
        self.save(edit, agent, EventType::Activated, (note, detail)).await
    }

    /// Deactivates an agent on behalf of a person.
    pub async fn deactivate(&self, agent_id: &str, note: &Note, caller: &Caller) -> Result<Agent> {
        let edit = self.edit(agent_id, caller).await?;
        let mut agent = edit.existing()?;
        if !agent.policy.active {
            return Ok(agent);
        }
        agent.policy.active = false;
        agent.policy.deactivated_by = Some(DeactivatedBy::Manual);
        let detail = json!({"deactivated_by": DeactivatedBy::Manual});
        self.save(edit, agent, EventType::Deactivated, (note, detail)).await
    }

    /// Deletes an agent: its policy and its state, but not its events. If it sends another request, it is a new agent.
    pub async fn delete_agent(&self, agent_id: &str, caller: &Caller) -> Result<()> {
        let edit = self.edit(agent_id, caller).await?;
        let mut agent = edit.existing()?;
        agent.deleted = true;
        (agent.managed_by, agent.managed_rule) = (None, None);
        self.save(edit, agent, EventType::Deleted, (&Note::default(), json!({}))).await?;
        self.observations.forget(agent_id);
        self.calls.forget(agent_id);
        Ok(())
    }

    pub(super) async fn edit(&self, agent_id: &str, caller: &Caller) -> Result<Edit> {
        check_agent_id(agent_id)?;
        let mut tx = self.store.begin().await?;
        let found = tx.agent(agent_id).await?;
        let (before, last_generation) = match found {
            Some(tombstone) if tombstone.deleted => (None, Some(tombstone.policy.generation)),
            other => (other, None),
        };
        caller.precondition.check(agent_id, before.as_ref())?;
        let actor = caller.who.actor.clone();
        Ok(Edit { tx, agent_id: agent_id.to_owned(), actor, before, last_generation })
    }

    async fn save_settings(&self, edit: Edit, mut agent: Agent) -> Result<Agent> {
        // A person has changed it, so it no longer counts among the agents that traffic may create.
        agent.discovered = false;
        let (event_type, detail) = match &edit.before {
            None => (EventType::Created, json!({"settings": settings(&agent)})),
            Some(before) => {
                let changes = difference(before, &agent);
                if changes.is_empty() {
                    return Ok(before.clone());
                }
                (EventType::PolicyChanged, json!({"changes": changes}))
            }
        };
        self.save(edit, agent, event_type, (&Note::default(), detail)).await
    }

    /// Writes the agent and the event, and commits.
    pub(super) async fn save(
        &self,
        mut edit: Edit,
        mut agent: Agent,
        event_type: EventType,
        (note, detail): (&Note, Value),
    ) -> Result<Agent> {
        agent.rev = edit.tx.save_agent(&agent).await?;
        let mut detail = match detail {
            Value::Object(detail) => detail,
            _ => Map::new(),
        };
        if let Some(by) = &note.by {
            detail.insert("by".to_owned(), json!(by));
        }
        let event = NewEvent {
            at_ms: self.now(),
            event_type,
            agent_id: edit.agent_id,
            generation: agent.policy.generation,
            actor: edit.actor,
            reason: note.reason.clone(),
            detail,
        };
        self.record(&mut edit.tx, &event).await?;
        self.commit(edit.tx, agent.rev).await?;
        Ok(agent)
    }
}

/// A change to one agent, inside its transaction.
pub(super) struct Edit {
    pub(super) tx: Tx,
    agent_id: String,
    pub(super) actor: String,
    before: Option<Agent>,
    /// The generation that the agent had when it was deleted, if it was.
    last_generation: Option<u64>,
}

impl Edit {
    pub(super) fn existing(&self) -> Result<Agent> {
        self.before.clone().ok_or_else(|| Error::no_agent(&self.agent_id))
    }
}

/// Returns the agent with the defaults of all its settings. Its state and its history stay.
pub(super) fn with_defaults(before: &Agent) -> Agent {
    let state = &before.policy;
    let mut agent = Agent::new(before.id(), state.generation);
    agent.policy.active = state.active;
    agent.policy.deactivated_by = state.deactivated_by;
    agent.policy.reason.clone_from(&state.reason);
    Agent { policy: agent.policy, name: String::new(), ..before.clone() }
}

/// Returns the generation that a new agent starts with. It is higher than that of a deleted agent with the same id, so
/// that windows from before the deletion are invalid.
pub(super) fn next_generation(last: Option<u64>) -> u64 {
    last.map_or(1, |last| last + 1)
}
