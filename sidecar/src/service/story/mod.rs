//! The story of a kill: what happened, the calls as the detector saw them, what was refused since, who was told, what the
//! agent's developer sees, and what can be done about it.
//!
//! The dashboard, the API and `kill-switch why` all show this. The calls are those that filters have reported and that are
//! stored as fingerprints. They run through the detector again with the settings of the kill. Where calls are not stored,
//! the story has what the report of the kill and the stored scores tell, and says so.

mod history;
mod remedies;

use agent_kill_switch::agent::record::session_key;
use agent_kill_switch::config::InactiveReply;
use agent_kill_switch::decode::envelope::Delivery as Wanted;
use agent_kill_switch::reply::{Cause, Refusal};
use agent_kill_switch::turn::{Answer, Format, ToolSignature, ToolTurn};
use agent_kill_switch::wire::{Action, AgentPolicy, DeactivatedBy, Match, Scope, ScoreSample, Signals};
use serde::Serialize;
use serde_json::{Map, Value};

use super::kills::brief;
use super::rerun::{Rerun, SeenBy};
use super::{Error, Result, Service};
use crate::clock::serialize_rfc3339;
use crate::model::{Agent, Channel, Delivery, DeliveryStatus, Event, EventType, Millis};

pub(super) use history::History;
pub use remedies::Remedy;

/// How many scores a story has if the calls are not stored.
const SCORES: u32 = 20;
/// How many deliveries a story lists.
const DELIVERIES: u32 = 100;

/// What is not found if there is no such event, or another kind of event.
const KILL: &str = "kill with the event id";

/// The story of a kill. It is serialised as the API shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// The event that records the kill.
    pub event: Event,
    /// What happened, in one sentence.
    pub summary: String,
    /// The state of the agent now. `None` if it was deleted.
    pub agent: Option<AgentNow>,
    /// The calls in the window of the kill, oldest first. The last one led to it. Empty if they are not stored.
    pub calls: Vec<StoryCall>,
    /// Why the calls are missing, or differ from what the Envoy saw. `None` if they are exactly what it saw.
    pub note: Option<String>,
    /// The past calls that the report of the kill names, the latest first.
    pub matches: Vec<Match>,
    /// The latest scores before the kill, oldest first, if the calls are not stored.
    #[serde(skip)]
    pub scores: Vec<ScoreSample>,
    /// How many calls were refused since, as far as it was reported.
    pub refused: Refused,
    /// The alerts that the event led to.
    pub told: Vec<Told>,
    /// What the agent's client gets. `None` if nothing was refused.
    pub reply: Option<Reply>,
    /// What can be done about it.
    pub remedies: Vec<Remedy>,
}

/// An agent as it is now.
#[derive(Clone, Debug, Serialize)]
pub struct AgentNow {
    /// Whether it may call.
    pub active: bool,
    /// Its settings.
    #[serde(skip)]
    pub policy: AgentPolicy,
}

/// A call in the window of a kill.
#[derive(Clone, Debug, Serialize)]
pub struct StoryCall {
    /// The number of the call in the story, from 1.
    pub number: usize,
    /// When it came.
    #[serde(rename = "at", serialize_with = "serialize_rfc3339")]
    pub at_ms: Millis,
    /// How long before the last call it came.
    pub age_ms: u64,
    /// The Envoy that received it.
    pub envoy: String,
    /// The key of its conversation. `None` if the call began one, or belongs to none.
    pub conversation: Option<String>,
    /// What the request brought.
    pub brought: &'static str,
    /// The names of the tools that it is about, if a kill has named them.
    pub tools: Vec<String>,
    /// What came back.
    pub answer: String,
    /// Its score.
    pub score: f64,
    /// What was counted.
    #[serde(flatten)]
    pub signals: Signals,
    /// The calls of the story that it repeats, the latest first.
    pub repeats: Vec<StoryRepeat>,
}

/// An earlier call that a call repeats.
#[derive(Clone, Debug, Serialize)]
pub struct StoryRepeat {
    /// The number of the earlier call in the story.
    pub number: usize,
    /// What is repeated, in words.
    pub by: String,
}

/// How many calls were refused.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Refused {
    /// How many calls Envoys have refused since, and before the agent or a conversation of it was stopped again.
    pub calls: u64,
    /// When the latest was refused.
    #[serde(rename = "last", serialize_with = "serialize_rfc3339")]
    pub last_ms: Option<Millis>,
}

/// An alert that an event led to.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The rule.
    pub rule_id: String,
    /// Its name. Empty if it has none, or was deleted.
    pub name: String,
    /// How the alert is delivered.
    pub channel: Channel,
    /// Whether it has arrived.
    pub status: DeliveryStatus,
    /// When it was last attempted.
    #[serde(rename = "last_attempt", serialize_with = "serialize_rfc3339")]
    pub last_attempt_ms: Option<Millis>,
    /// Why it has not arrived.
    pub error: String,
}

/// What a client gets whose call is refused.
#[derive(Clone, Debug, Serialize)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The message of the error.
    pub message: String,
}

/// Reads the id of an event that a person or a program has given.
pub fn event_id(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::NotFound { what: KILL, id: text.chars().take(40).collect() })
}

/// Whether an event has a story.
pub fn is_kill(event: &Event) -> bool {
    use EventType::{AnswerLoop, Blocked, KillSwitch, WouldKill};
    matches!(event.body.event_type, KillSwitch | Blocked | WouldKill | AnswerLoop)
}

impl Service {
    /// Returns the story of the kill that an event records.
    pub async fn story(&self, event_id: u64) -> Result<Story> {
        let unknown = || Error::NotFound { what: KILL, id: event_id.to_string() };
        let event = self.store.event(event_id).await?.filter(is_kill).ok_or_else(unknown)?;
        let agent_id = event.body.agent_id.clone();
        let agent = self.store.agent(&agent_id).await?.filter(|agent| !agent.deleted);
        let history = self.history(&agent_id).await?;
        let policy = policy_of_kill(&event, agent.as_ref());
        let window = history.tripping(&event).map(|index| history.window_of(index, &policy, &event));
        let (calls, note) = told_calls(&event, window, history.ordered.calls.is_empty());
        let scores = match calls.is_empty() && figure(&event.body.detail, "score").is_some() {
            true => self.scores_before(&agent_id, event.body.at_ms).await?,
            false => Vec::new(),
        };
        let refused = self.store.refusals(event_id).await?.map(|(calls, last)| Refused { calls, last_ms: Some(last) });
        let remedies = match &agent {
            Some(agent) => self.remedies(&event, agent, &history).await?,
            None => Vec::new(),
        };
        Ok(Story {
            summary: summary(&event),
            agent: agent.as_ref().map(|agent| AgentNow { active: agent.policy.active, policy: agent.policy.clone() }),
            calls,
            note,
            matches: serde_json::from_value(event.body.detail.get("matches").cloned().unwrap_or_default())
                .unwrap_or_default(),
            scores,
            refused: refused.unwrap_or_default(),
            told: self.told(event_id).await?,
            reply: reply(&event, &policy),
            remedies,
            event,
        })
    }

    async fn scores_before(&self, agent_id: &str, at_ms: Millis) -> Result<Vec<ScoreSample>> {
        let mut scores = self.store.scores(agent_id, 0, self.limits.scores_per_agent).await?;
        scores.retain(|sample| sample.at_ms <= at_ms);
        Ok(scores.split_off(scores.len().saturating_sub(SCORES as usize)))
    }

    async fn told(&self, event_id: u64) -> Result<Vec<Told>> {
        let deliveries = self.store.deliveries_of(event_id, DELIVERIES).await?;
        let rules = if deliveries.is_empty() { Vec::new() } else { self.store.alert_rules().await? };
        let told = |delivery: Delivery| {
            let rule = rules.iter().find(|rule| rule.rule_id == delivery.rule_id);
            Told {
                name: rule.map(|rule| rule.name.clone()).unwrap_or_default(),
                rule_id: delivery.rule_id,
                channel: delivery.channel,
                status: delivery.status,
                last_attempt_ms: delivery.last_attempt_ms,
                error: delivery.last_error,
            }
        };
        Ok(deliveries.into_iter().map(told).collect())
    }
}

/// Returns the policy that was in force, as far as the event tells it. The rest is that of now.
fn policy_of_kill(event: &Event, agent: Option<&Agent>) -> AgentPolicy {
    let detail = &event.body.detail;
    let mut policy = agent.map_or_else(|| Agent::new(&event.body.agent_id, 1).policy, |agent| agent.policy.clone());
    if let Some(window_size) = figure(detail, "window_size") {
        policy.kill_switch_window_size = window_size as u32;
    }
    policy.kill_switch_threshold = figure(detail, "threshold").unwrap_or(policy.kill_switch_threshold);
    policy.counting = text(detail, "counting").parse().unwrap_or(policy.counting);
    policy.action = text(detail, "action").parse().unwrap_or(policy.action);
    policy.scope = text(detail, "scope").parse().unwrap_or(policy.scope);
    policy
}

/// The calls of a window, and whether the last one has the score that the kill has.
struct WindowOfKill {
    calls: Vec<StoryCall>,
    score: f64,
}

impl History {
    /// Runs all calls up to the one at `index` through the detector. Returns those in its window.
    fn window_of(&self, index: usize, policy: &AgentPolicy, event: &Event) -> WindowOfKill {
        let seen_by = if event.body.detail.contains_key("envoys") { SeenBy::Fleet } else { SeenBy::Envoy };
        let mut rerun = Rerun::new(&self.ordered, policy, &self.names);
        let mut judged = Vec::with_capacity(index + 1);
        for call in 0..=index {
            let one = rerun.judge(call);
            let score = if seen_by == SeenBy::Fleet { one.merged.unwrap_or(one.own) } else { one.own };
            judged.push((score, rerun.repeats(call, seen_by)));
            if let Some(seen_by) = one.seen_by.filter(|_| call < index) {
                rerun.act(call, seen_by);
            }
        }
        let window = rerun.calls_in_window(index, seen_by);
        let number = |call: usize| window.iter().position(|one| *one == call).map(|place| place + 1);
        let last_ms = self.ordered.calls.get(index).map_or(0, |call| call.at_ms);
        let calls = window.iter().enumerate().filter_map(|(place, call)| {
            let (stored, (score, repeats)) = (self.ordered.calls.get(*call)?, judged.get(*call)?);
            let repeat = |(earlier, by): &(usize, Match)| Some(StoryRepeat { number: number(*earlier)?, by: rule(by) });
            Some(StoryCall {
                number: place + 1,
                at_ms: stored.at_ms,
                age_ms: last_ms.saturating_sub(stored.at_ms),
                envoy: stored.envoy.clone(),
                conversation: stored.conversation().key().map(session_key),
                brought: brought(&stored.item.call.tools, stored.item.call.action),
                tools: self.tools_of(stored.item.call.tools.signature()),
                answer: came_back(*call == index, stored.end.map(|(answer, _)| answer)),
                score: score.value(),
                signals: score.signals,
                repeats: repeats.iter().filter_map(repeat).collect(),
            })
        });
        let score = judged.last().map_or(0.0, |(score, _)| score.value());
        WindowOfKill { calls: calls.collect(), score }
    }

    fn tools_of(&self, signature: Option<ToolSignature>) -> Vec<String> {
        self.names.get(&ToolSignature::code(signature)).filter(|_| signature.is_some()).cloned().unwrap_or_default()
    }
}

/// Returns the calls that the story shows, and what must be said about them.
fn told_calls(event: &Event, window: Option<WindowOfKill>, is_empty: bool) -> (Vec<StoryCall>, Option<String>) {
    let detail = &event.body.detail;
    let Some(score) = figure(detail, "score") else {
        let why = match detail.contains_key("period") {
            true => "The loop was inside one answer, so there are no calls to compare.",
            false => "Several conversations were stopped one after the other, and each of them has a story of its own.",
        };
        return (Vec::new(), Some(why.to_owned()));
    };
    match window {
        Some(window) if window.score == score => (window.calls, None),
        Some(window) => {
            let note = format!(
                "Some reports of calls were lost, or settings were changed in the meantime: with the calls that are \
                 stored, the last one gets the score {} instead of {score}.",
                window.score
            );
            (window.calls, Some(note))
        }
        None if is_empty => {
            let note =
                "The calls of this agent are not stored: the filter is configured with fleet: false, the sidecar \
                        stores none, or the kill is older than the stored calls. What follows is what the report of \
                        the kill itself names."
                    .to_owned();
            (Vec::new(), Some(note))
        }
        None => {
            let note = "The calls before this kill are not stored any more, or their reports were lost. What follows \
                        is what the report of the kill itself names."
                .to_owned();
            (Vec::new(), Some(note))
        }
    }
}

/// Says by which rules a call repeats an earlier one.
fn rule(one: &Match) -> String {
    let alike = |what: &str, distance: Option<u32>| match distance? {
        0 => Some(format!("the same {what}")),
        1 => Some(format!("nearly the same {what} (1 bit differs)")),
        bits => Some(format!("nearly the same {what} ({bits} bits differ)")),
    };
    let tool = one.same_tool_call.then(|| "the same tool call".to_owned());
    let parts = [tool, alike("input", one.prompt_distance), alike("answer before it", one.response_distance)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn brought(tools: &ToolTurn, action: Option<ToolSignature>) -> &'static str {
    match tools {
        ToolTurn::Results(_) => "results of a tool call",
        ToolTurn::Call(_) => "a tool call",
        ToolTurn::None if action.is_some() => "the result of an action in text",
        ToolTurn::None => "text",
    }
}

fn came_back(is_last: bool, answer: Option<Answer>) -> String {
    match answer {
        None if is_last => "the loop was recognised".to_owned(),
        None | Some(Answer::Unknown) => "not known".to_owned(),
        Some(Answer::Failed) => "the call failed".to_owned(),
        Some(Answer::Rejected(status)) => format!("refused by the upstream ({status})"),
        Some(Answer::Abandoned) => "given up by the client".to_owned(),
        Some(Answer::Text(_)) => "text".to_owned(),
        Some(Answer::Tools { .. }) => "a tool call".to_owned(),
    }
}

/// Says in one sentence what happened.
fn summary(event: &Event) -> String {
    let (body, detail) = (&event.body, &event.body.detail);
    let agent = &body.agent_id;
    let who = match (text(detail, "scope"), text(detail, "session")) {
        ("session", session) if !session.is_empty() => {
            let session = session.strip_prefix("conversation ").unwrap_or(session);
            format!("conversation {session} of agent {agent}")
        }
        _ => format!("agent {agent}"),
    };
    let did = match body.event_type {
        EventType::KillSwitch if text(detail, "scope") == "session" => format!("The kill switch stopped {who}"),
        EventType::KillSwitch => format!("The kill switch deactivated {who}"),
        EventType::Blocked => format!("The kill switch blocked {who} for a while"),
        EventType::WouldKill if detail.contains_key("paused") => {
            format!("The kill switch would have stopped {who}, but it was paused")
        }
        EventType::WouldKill => format!("The kill switch would have stopped {who}, whose action is observe"),
        _ => format!("The model of {who} repeated itself within one answer, and nothing was stopped"),
    };
    let figures = match (figure(detail, "score"), figure(detail, "threshold")) {
        (Some(score), Some(threshold)) => format!(" (score {score}, threshold {threshold})"),
        _ => String::new(),
    };
    let reason = if body.reason.is_empty() { String::new() } else { format!(": {}", body.reason) };
    format!("{did}{reason}{figures}.")
}

/// Returns what a client gets whose call is refused because of this kill.
fn reply(event: &Event, policy: &AgentPolicy) -> Option<Reply> {
    let detail = &event.body.detail;
    let reason = brief(&event.body.reason);
    let is_session = policy.scope == Scope::Session && detail.contains_key("session_key");
    let seconds = figure(detail, "retry_after_seconds").map_or(policy.retry_after_seconds, |seconds| seconds as u32);
    let cause = match (event.body.event_type, is_session) {
        (EventType::KillSwitch, false) => Cause::Inactive { by: Some(DeactivatedBy::KillSwitch), reason },
        (EventType::Blocked, false) => Cause::Blocked { retry_after_seconds: seconds, reason },
        (EventType::KillSwitch | EventType::Blocked, true) => Cause::SessionStopped {
            session: text(detail, "session").to_owned(),
            reason,
            retry_after_seconds: match policy.action {
                Action::Block => seconds,
                Action::Deactivate | Action::Observe => policy.session_stop_seconds,
            },
            action: policy.action,
        },
        _ => return None,
    };
    let refusal = Refusal {
        format: Format::OpenAiChat,
        delivery: Wanted::Whole,
        json_rpc_id: None,
        model: None,
        is_call: true,
        agent_id: Some(&event.body.agent_id),
        cause,
        style: InactiveReply::Error,
        dashboard_url: None,
        at_ms: event.body.at_ms,
    };
    Some(Reply { status: refusal.reply().status, message: refusal.message() })
}

/// Returns a number in the detail of an event.
fn figure(detail: &Map<String, Value>, member: &str) -> Option<f64> {
    detail.get(member).and_then(Value::as_f64)
}

/// Returns a text in the detail of an event, or an empty one.
fn text<'a>(detail: &'a Map<String, Value>, member: &str) -> &'a str {
    detail.get(member).and_then(Value::as_str).unwrap_or_default()
}
