//! Notices in words: one line that says it all, and the numbers below it.

use serde_json::{Map, Value};

use crate::model::{Delivery, NoticeKind};

/// A notice for people.
pub(super) struct Message {
    /// What happened, in one line.
    pub subject: String,
    /// The rest, line by line.
    pub lines: Vec<String>,
}

impl Message {
    /// Writes a delivery's payload out; `public_url` is where the dashboard is.
    pub(super) fn of(delivery: &Delivery, public_url: Option<&str>) -> Self {
        let payload: Value = serde_json::from_str(&delivery.payload).unwrap_or_default();
        let empty = Map::new();
        let data = payload.get("data").and_then(Value::as_object).unwrap_or(&empty);
        let text = |member: &str| data.get(member).and_then(Value::as_str).unwrap_or_default();
        let agent = &delivery.agent_id;
        let subject = match delivery.kind {
            NoticeKind::KillSwitch => format!("Agent {agent} was deactivated by the kill switch"),
            NoticeKind::Blocked => format!("Agent {agent} is blocked for a while: a loop was detected"),
            NoticeKind::WouldKill => format!("[dry run] Agent {agent} would have been deactivated by the kill switch"),
            NoticeKind::Activated => format!("Recovered: agent {agent} is active again"),
            NoticeKind::Test => "Test: alerts from the kill switch arrive here".to_owned(),
        };
        let mut lines = Vec::new();
        let mut say = |label: &str, value: String| {
            if !value.is_empty() {
                lines.push(format!("{label}: {value}"));
            }
        };
        say("Why", text("reason").to_owned());
        say("Score", score(data));
        say("Signals", signals(data));
        say("Tools", list(data.get("tools")));
        say("By", actor(data));
        say("At", payload.get("timestamp").and_then(Value::as_str).unwrap_or_default().to_owned());
        if delivery.kind == NoticeKind::WouldKill {
            lines.push("Nothing was stopped: this agent's action is observe.".to_owned());
        }
        if let (Some(base), false) = (public_url, agent.is_empty()) {
            let id = percent_encoding::utf8_percent_encode(agent, percent_encoding::NON_ALPHANUMERIC);
            lines.push(format!("{}/agents/{id}", base.trim_end_matches('/')));
        }
        Self { subject, lines }
    }
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
    format!("{prompts} similar prompts, {responses} similar responses, {tools} repeated tool calls")
}

fn list(value: Option<&Value>) -> String {
    let names = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

fn actor(data: &Map<String, Value>) -> String {
    let text = |member: &str| data.get(member).and_then(Value::as_str).unwrap_or_default();
    match (text("by"), text("actor")) {
        ("", actor) => actor.to_owned(),
        (by, actor) => format!("{by} ({actor})"),
    }
}
