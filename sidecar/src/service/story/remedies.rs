//! What can be done about a kill, and what each would have changed.

use agent_kill_switch::wire::{Action, AgentPolicy, ToolRule};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{History, figure, text};
use crate::model::{Agent, Event, RemedyKind};
use crate::service::{Basis, Caller, Change, Names, Note, Preview, Result, Service};

/// How many tools of one kill can be ignored here.
const MAX_TOOLS: usize = 4;
/// How far above the reached score the threshold is raised.
const ABOVE: f64 = 0.5;

/// Something that can be done about a kill.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// What it is.
    pub remedy: RemedyKind,
    /// The tool, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The new threshold, if it raises it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// What it would have changed, in words.
    pub effect: String,
    /// What it would have changed.
    pub preview: Preview,
}

impl Service {
    /// Returns what can be done about a kill, and what each would have changed.
    pub(super) async fn remedies(&self, event: &Event, agent: &Agent, history: &History) -> Result<Vec<Remedy>> {
        let current = &agent.policy;
        let mut remedies = Vec::new();
        let can_resume = self.release(agent, event, self.now()).await? == Some(RemedyKind::Resume);
        for (remedy, tool, threshold) in possible(event, current, can_resume) {
            // Settings cannot name every tool that a filter can report, such as one with a line break in its name.
            let Ok(change) = change(remedy, tool.as_deref(), threshold) else { continue };
            let mut changed = agent.clone();
            // A threshold that no call can exceed any more, and a tool too many, are not offered.
            if change.apply(&mut changed).is_err() {
                continue;
            }
            let preview = match history.ordered.calls.is_empty() {
                true => self.preview_of_scores(current, &changed.policy).await?,
                false => history.preview(current, &changed.policy),
            };
            remedies.push(Remedy { remedy, tool, threshold, effect: effect(remedy, &preview), preview });
        }
        Ok(remedies)
    }

    /// Does something about the kill that an event records. Returns the agent's id.
    pub async fn remedy(
        &self,
        event_id: u64,
        remedy: RemedyKind,
        (tool, note): (&str, &Note),
        caller: &Caller,
    ) -> Result<String> {
        let story = self.story(event_id).await?;
        let id = story.event.body.agent_id;
        let offered = |one: &&Remedy| one.remedy == remedy && (tool.is_empty() || one.tool.as_deref() == Some(tool));
        // One that is not offered any more was done by somebody else in the meantime.
        let Some(one) = story.remedies.iter().find(offered) else { return Ok(id) };
        let change = change(remedy, one.tool.as_deref(), one.threshold)?;
        if change != Change::default() {
            self.patch_agent(&id, &change, caller).await?;
        }
        match remedy {
            RemedyKind::Activate => drop(self.activate(&id, note, caller).await?),
            RemedyKind::Observe if story.agent.is_some_and(|agent| !agent.active) => {
                self.activate(&id, note, caller).await?;
            }
            RemedyKind::Resume => {
                let key = text(&story.event.body.detail, "session_key");
                self.resume_session(&id, key, note, caller).await?;
            }
            RemedyKind::Observe | RemedyKind::IgnoreTool | RemedyKind::RaiseThreshold => {}
        }
        Ok(id)
    }
}

/// Returns what may be done: with which tool, and with which threshold.
fn possible(event: &Event, policy: &AgentPolicy, can_resume: bool) -> Vec<(RemedyKind, Option<String>, Option<f64>)> {
    let detail = &event.body.detail;
    let mut possible = Vec::new();
    if !policy.active {
        possible.push((RemedyKind::Activate, None, None));
    } else if can_resume {
        possible.push((RemedyKind::Resume, None, None));
    }
    if policy.action != Action::Observe {
        possible.push((RemedyKind::Observe, None, None));
    }
    let tools = detail.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for tool in tools.take(MAX_TOOLS) {
        if policy.tools.get(tool) != Some(ToolRule::Ignore) {
            possible.push((RemedyKind::IgnoreTool, Some(tool.to_owned()), None));
        }
    }
    let reached = ["score", "failures_in_a_row", "repeated_steps"].into_iter().filter_map(|name| figure(detail, name));
    let reached = reached.fold(0.0, f64::max);
    if reached > 0.0 && policy.kill_switch_threshold < reached + ABOVE {
        possible.push((RemedyKind::RaiseThreshold, None, Some(reached + ABOVE)));
    }
    possible
}

/// Returns the change of settings that is part of a remedy.
fn change(remedy: RemedyKind, tool: Option<&str>, threshold: Option<f64>) -> Result<Change> {
    let settings = match remedy {
        RemedyKind::IgnoreTool => return Change::ignoring(tool.unwrap_or_default()),
        RemedyKind::Observe => json!({"action": Action::Observe}),
        RemedyKind::RaiseThreshold => json!({"threshold": threshold}),
        RemedyKind::Activate | RemedyKind::Resume => json!({}),
    };
    let settings = match settings {
        Value::Object(settings) => settings,
        _ => Map::new(),
    };
    Change::parse(&settings, Names::KillSwitch)
}

/// Says what a remedy would have changed.
fn effect(remedy: RemedyKind, preview: &Preview) -> String {
    let stored = match preview.basis {
        Basis::Calls { .. } => format!("the last {} stored calls", preview.calls),
        Basis::Scores { .. } => format!("the last {} calls, of which only the scores are stored,", preview.calls),
    };
    let with = match remedy {
        RemedyKind::Activate | RemedyKind::Resume => "With the settings as they are",
        _ => "With this setting",
    };
    match preview.stops.first() {
        _ if preview.calls == 0 => "No calls are stored, so there is nothing to try it on.".to_owned(),
        None => format!("{with}, none of {stored} would have been stopped."),
        Some(_) if preview.action == Action::Observe => {
            let loops = if preview.stopped == 1 { "1 loop".to_owned() } else { format!("{} loops", preview.stopped) };
            format!("{with}, none of {stored} would have been refused. {loops} would have been recorded.")
        }
        Some(first) => {
            let more = match preview.stopped - 1 {
                0 => String::new(),
                more => format!(", and {more} more later"),
            };
            format!(
                "{with}, call {} of {stored} would {}have been stopped{more}.",
                first.call,
                if matches!(remedy, RemedyKind::Activate | RemedyKind::Resume) { "" } else { "still " },
            )
        }
    }
}
