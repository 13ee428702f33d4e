//! The text of a notice, for everything that people read: a subject that says what happened, and lines with the details.
//!
//! The reader may have been woken up by it, so it also says what state the agent is in now.

use agent_kill_switch::printable::printable;
use agent_kill_switch::wire::Scope;
use serde_json::{Map, Value};

use crate::model::{Delivery, NoticeKind, who};

/// The text of a notice.
pub(super) struct Message {
    /// One line that says what happened.
    pub subject: String,
    /// The details: a label and a value each.
    pub details: Vec<(&'static str, String)>,
    /// The page of the dashboard that shows more, if its address is known.
    pub link: Option<String>,
    /// When it happened, as RFC 3339.
    pub timestamp: String,
    /// What the notice says to programs.
    pub data: Map<String, Value>,
}

impl Message {
    /// Writes the text of a delivery. `public_url` is the address of the dashboard, for a link to the story of a kill.
    pub(super) fn of(delivery: &Delivery, public_url: Option<&str>) -> Self {
        let payload: Value = serde_json::from_str(&delivery.payload).unwrap_or_default();
        let data = payload.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
        let timestamp = payload.get("timestamp").and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = |member: &str| data.get(member).and_then(Value::as_str).unwrap_or_default();
        let (subject, state_now) = headline(delivery, &data);
        let details = [
            ("Why", text("reason").to_owned()),
            ("Conversation", session_name(&data).unwrap_or_default().to_owned()),
            ("Score", score(&data)),
            ("Signals", signals(&data)),
            ("Tools", tools(&data)),
            ("By", actor(&data)),
            ("At", timestamp.clone()),
            ("Now", state_now),
        ];
        // Text from clients must not begin a new line, and so look like a detail of ours.
        let given = details.into_iter().filter(|(_, value)| !value.is_empty());
        let details = given.map(|(label, value)| (label, printable(&value))).collect();
        let link = public_url.and_then(|base| link(delivery, base.trim_end_matches('/')));
        Self { subject: printable(&subject), details, link, timestamp, data }
    }

    /// Returns the details as text, one per line, the link last.
    pub(super) fn lines(&self) -> Vec<String> {
        let details = self.details.iter().map(|(label, value)| format!("{label}: {value}"));
        details.chain(self.link.clone()).collect()
    }
}

/// Returns the page of the dashboard that a notice is about: the story of a kill, an agent, or the fleet.
fn link(delivery: &Delivery, base: &str) -> Option<String> {
    if matches!(delivery.kind, NoticeKind::Paused | NoticeKind::Resumed) {
        return Some(format!("{base}/"));
    }
    if let (
        NoticeKind::KillSwitch | NoticeKind::Blocked | NoticeKind::WouldKill | NoticeKind::AnswerLoop,
        Some(event_id),
    ) = (delivery.kind, delivery.event_id)
    {
        return Some(format!("{base}/kills/{event_id}"));
    }
    let id = percent_encoding::utf8_percent_encode(&delivery.agent_id, percent_encoding::NON_ALPHANUMERIC);
    (!delivery.agent_id.is_empty()).then(|| format!("{base}/agents/{id}"))
}

/// Returns the subject, and the state that the agent or the conversation is in now.
fn headline(delivery: &Delivery, data: &Map<String, Value>) -> (String, String) {
    let agent = &delivery.agent_id;
    let conversation = format!("Conversation {} of agent {agent}", session_name(data).unwrap_or_default());
    let until = data.get("until").and_then(Value::as_str).unwrap_or_default();
    let refused_until = format!("Its requests are refused until {until}; the agent itself goes on.");
    let observed = match data.get("paused") {
        Some(_) => "Nothing was stopped, because the kill switch is paused.".to_owned(),
        None => "Nothing was stopped, because this agent's action is observe.".to_owned(),
    };
    match (delivery.kind, delivery.scope) {
        (NoticeKind::KillSwitch, Scope::Agent) => (
            format!("Agent {agent} was deactivated by the kill switch"),
            "All its requests are refused until somebody activates it.".to_owned(),
        ),
        (NoticeKind::KillSwitch, Scope::Session) => {
            (format!("{conversation} was stopped by the kill switch"), refused_until)
        }
        (NoticeKind::Blocked, Scope::Agent) => (
            format!("Agent {agent} is temporarily blocked because it is in a loop"),
            "Its requests are refused for a short time and then allowed again.".to_owned(),
        ),
        (NoticeKind::Blocked, Scope::Session) => {
            (format!("{conversation} is temporarily blocked because it is in a loop"), refused_until)
        }
        (NoticeKind::WouldKill, Scope::Agent) => {
            (format!("[dry run] Agent {agent} would have been deactivated by the kill switch"), observed)
        }
        (NoticeKind::WouldKill, Scope::Session) => {
            (format!("[dry run] {conversation} would have been stopped by the kill switch"), observed)
        }
        (NoticeKind::AnswerLoop, _) => (
            format!("The model of agent {agent} repeats itself within one answer"),
            "Nothing was stopped, and the client gets the whole answer.".to_owned(),
        ),
        (NoticeKind::Activated, _) => (format!("Recovered: agent {agent} is active again"), String::new()),
        (NoticeKind::Paused, _) => (paused(data), format!("Loops are recorded, and nothing is stopped until {until}.")),
        (NoticeKind::Resumed, _) => {
            ("The kill switch is no longer paused".to_owned(), "Loops are stopped again.".to_owned())
        }
        (NoticeKind::Test, _) => ("Test notice: alerts of the kill switch arrive here".to_owned(), String::new()),
    }
}

/// Returns the subject of a notice that the fleet is paused, which says what a storm of kills led to.
fn paused(data: &Map<String, Value>) -> String {
    let count = |member: &str| data.get(member).and_then(Value::as_u64);
    let Some(agents) = count("agents_given_back") else { return "The kill switch is paused".to_owned() };
    let named = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let sessions = match count("sessions_given_back") {
        None | Some(0) => String::new(),
        Some(sessions) => format!(" and {}", named(sessions, "conversation")),
    };
    format!("The kill switch was paused by a storm of kills: {}{sessions} given back", named(agents, "agent"))
}

fn score(data: &Map<String, Value>) -> String {
    match (data.get("score"), data.get("threshold"), data.get("window_size")) {
        (Some(score), Some(threshold), Some(window)) => format!("{score} > {threshold} over the last {window} calls"),
        _ => String::new(),
    }
}

fn signals(data: &Map<String, Value>) -> String {
    let count = |member: &str| data.get(member).and_then(Value::as_u64);
    let counts = (count("similar_prompts"), count("similar_responses"), count("repeated_tool_calls"));
    let (Some(prompts), Some(responses), Some(tools)) = counts else { return String::new() };
    let mut said = format!("{prompts} similar prompts, {responses} similar responses, {tools} repeated tool calls");
    for (member, words) in
        [("failures_in_a_row", "times the same failure in a row"), ("repeated_steps", "repeated steps")]
    {
        if let Some(number) = count(member) {
            said += &format!(", {number} {words}");
        }
    }
    said
}

/// Returns the names of the tools in the detail of an event.
pub(crate) fn tools(data: &Map<String, Value>) -> String {
    let names = data.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the id of the conversation in the detail of an event, or its key if the client sent no id.
pub(crate) fn session_name(data: &Map<String, Value>) -> Option<&str> {
    let session = data.get("session").and_then(Value::as_str)?;
    let key = session.strip_prefix("conversation ");
    Some(key.filter(|key| data.get("session_key").is_some_and(|own| own == key)).unwrap_or(session))
}

fn actor(data: &Map<String, Value>) -> String {
    let text = |member: &str| data.get(member).and_then(Value::as_str).unwrap_or_default();
    who(Some(text("by")).filter(|by| !by.is_empty()), text("actor"))
}
