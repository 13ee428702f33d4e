//! `kill-switch why`: the story of a kill as text.

use std::fmt::Write as _;

use agent_kill_switch::printable::printable;
use clap::Args;
use serde_json::Value;

use super::CliError;
use super::client::{Client, ServerOptions, path, query};
use super::output::{Format, cell, list, print, print_json, table};

/// The types of events that have a story.
const KILLS: [&str; 4] = ["kill_switch", "blocked", "would_kill", "answer_loop"];

#[derive(Args, Debug)]
pub(super) struct WhyOptions {
    /// The agent's id
    agent_id: String,
    /// The id of the event, as `events list` shows it; by default the latest kill of the agent
    #[arg(long, value_name = "ID")]
    event: Option<u64>,
    #[command(flatten)]
    server: ServerOptions,
}

impl WhyOptions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let client = self.server.client()?;
        let id = match self.event {
            Some(id) => id,
            None => latest_kill(&client, &self.agent_id).await?,
        };
        let story = client.get(&path(["kills", &id.to_string()])).await?;
        let agent_id = story.pointer("/event/agent_id").and_then(Value::as_str).unwrap_or_default();
        if agent_id != self.agent_id {
            let message = format!("event {id} is about agent {}, not {}", printable(agent_id), self.agent_id);
            return Err(CliError::NotFound(message));
        }
        match self.server.format {
            Format::Json => print_json(&story),
            Format::Table => print(&told(&story)),
        }
    }
}

/// Returns the id of the latest event of an agent that has a story.
async fn latest_kill(client: &Client, agent_id: &str) -> Result<u64, CliError> {
    client.get(&path(["agents", agent_id])).await?;
    let mut latest = None;
    for kind in KILLS {
        let parameters = [("agent_id", agent_id), ("event_type", kind), ("limit", "1")];
        let parameters = parameters.map(|(name, value)| (name, Some(value.to_owned())));
        let page = client.get(&format!("/v1/events?{}", query(&parameters))).await?;
        latest = latest.max(list(&page, "events").first().and_then(|event| event.get("id")?.as_u64()));
    }
    latest.ok_or_else(|| CliError::NotFound(format!("agent {agent_id} was never stopped: there is no kill to explain")))
}

/// Returns the story as text.
fn told(story: &Value) -> String {
    let event = story.get("event").unwrap_or(&Value::Null);
    let mut text = format!("{}\n", cell(story, "summary"));
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<12}{value}");
    };
    line("At", cell(event, "at"));
    line("Event", format!("{} {}", cell(event, "id"), cell(event, "event_type")));
    line("Now", now(story).to_owned());
    line("Refused", refused(story));
    let reply = story.get("reply").filter(|reply| reply.is_object());
    let reply = reply.map(|reply| format!("{}: {}", cell(reply, "status"), cell(reply, "message")));
    line("Client gets", reply.unwrap_or_else(|| "its answer: nothing was refused".to_owned()));
    if let Some(note) = story.get("note").and_then(Value::as_str) {
        let _ = writeln!(text, "\n{}", printable(note));
    }
    text + &calls(story) + &alerts(story) + &remedies(story)
}

fn now(story: &Value) -> &'static str {
    match story.pointer("/agent/active").and_then(Value::as_bool) {
        None => "the agent was deleted",
        Some(true) => "the agent is active",
        Some(false) => "the agent is inactive",
    }
}

fn refused(story: &Value) -> String {
    let refused = story.get("refused").unwrap_or(&Value::Null);
    match refused.get("calls").and_then(Value::as_u64).unwrap_or_default() {
        0 => "no call was reported as refused since".to_owned(),
        1 => format!("1 call since, at {}", cell(refused, "last")),
        calls => format!("{calls} calls since, the latest at {}", cell(refused, "last")),
    }
}

/// Lists the calls, or those that the report of the kill names.
fn calls(story: &Value) -> String {
    let calls = list(story, "calls");
    if calls.is_empty() {
        let matches = list(story, "matches");
        let row = |one: &Value| {
            ["calls_ago", "age_ms", "prompt_distance", "response_distance", "same_tool_call"]
                .map(|name| cell(one, name))
        };
        let heading = ["CALLS AGO", "AGE MS", "PROMPT BITS", "RESPONSE BITS", "SAME TOOL CALL"];
        return if matches.is_empty() {
            String::new()
        } else {
            format!("\n{}", table(heading, matches.iter().map(row)))
        };
    }
    let row = |call: &Value| {
        let age_ms = call.get("age_ms").and_then(Value::as_u64).unwrap_or_default();
        let tools = list(call, "tools");
        let tools: Vec<_> = tools.iter().filter_map(Value::as_str).collect();
        let brought = match tools.is_empty() {
            true => cell(call, "brought"),
            false => format!("{}: {}", cell(call, "brought"), tools.join(", ")),
        };
        [
            cell(call, "number"),
            format!("-{:.1} s", age_ms as f64 / 1_000.0),
            cell(call, "conversation"),
            brought,
            cell(call, "answer"),
            cell(call, "score").trim_end_matches(".0").to_owned(),
            repeats(call),
        ]
    };
    let heading = ["CALL", "AGE", "CONVERSATION", "BROUGHT", "CAME BACK", "SCORE", "REPEATS"];
    format!("\n{}", table(heading, calls.iter().map(row)))
}

/// Lists the calls that a call repeats. Those that it repeats by the same rule are named together.
fn repeats(call: &Value) -> String {
    let mut rules: Vec<(String, Vec<String>)> = Vec::new();
    for repeat in list(call, "repeats").iter().rev() {
        let (by, number) = (cell(repeat, "by"), cell(repeat, "number"));
        match rules.iter_mut().find(|(known, _)| *known == by) {
            Some((_, numbers)) => numbers.push(number),
            None => rules.push((by, vec![number])),
        }
    }
    let mut parts: Vec<_> = rules.iter().map(|(by, numbers)| format!("{} ({by})", numbers.join(", "))).collect();
    for (member, words) in [("failures_in_a_row", "times the same failure"), ("repeated_steps", "repeated steps")] {
        parts.extend(call.get(member).and_then(Value::as_u64).map(|count| format!("{count} {words}")));
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join("; ") }
}

fn alerts(story: &Value) -> String {
    let told = list(story, "told");
    if told.is_empty() {
        return "\nNobody was told: no alert rule applied to this event.\n".to_owned();
    }
    let row = |one: &Value| {
        let rule = if cell(one, "name") == "-" { cell(one, "rule_id") } else { cell(one, "name") };
        [rule, cell(one, "channel"), cell(one, "status"), cell(one, "last_attempt"), cell(one, "error")]
    };
    format!("\n{}", table(["TOLD", "CHANNEL", "STATUS", "AT", "ERROR"], told.iter().map(row)))
}

/// Lists what can be done, with the command for each.
fn remedies(story: &Value) -> String {
    let event = story.get("event").unwrap_or(&Value::Null);
    let agent = cell(event, "agent_id");
    let remedies = list(story, "remedies");
    let mut text = String::new();
    for remedy in &remedies {
        let set = |option: String| format!("kill-switch agents set {agent} {option}");
        let command = match cell(remedy, "remedy").as_str() {
            "activate" => format!("kill-switch agents activate {agent}"),
            "resume" => format!("kill-switch agents resume {agent} {}", cell(event, "session_key")),
            "observe" if now(story).ends_with("inactive") => {
                format!("{} && kill-switch agents activate {agent}", set("--action observe".to_owned()))
            }
            "observe" => set("--action observe".to_owned()),
            "ignore_tool" => set(format!("--tool {}", quoted(&format!("{}=ignore", cell(remedy, "tool"))))),
            _ => set(format!("--threshold {}", cell(remedy, "threshold"))),
        };
        let _ = writeln!(text, "\n{command}\n  {}", cell(remedy, "effect"));
    }
    text
}

/// Returns a text as a shell takes it for one word. Names of tools come from clients.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/:@=-".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_tool_cannot_become_a_command() {
        assert_eq!(quoted("wait_for_job=ignore"), "wait_for_job=ignore");
        assert_eq!(quoted("a'; rm -rf ~; '=ignore"), r"'a'\''; rm -rf ~; '\''=ignore'");
    }
}
