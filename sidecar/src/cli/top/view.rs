//! What `kill-switch top` shows, and what each key does. It knows neither the terminal nor the server, so tests need neither.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::Sort;
use crate::cli::agents::state;
use crate::cli::output::{cell, table as aligned};
use crate::clock::{parse_rfc3339, system_clock};
use crate::model::Millis;

const HEADING: [&str; 7] = ["AGENT", "STATE", "KILL SWITCH", "SCORE", "CALLS/S", "ENVOYS", "LAST SEEN"];
const KEYS: &str = "up/down select   d deactivate   a activate   s sort   q quit";
/// Lines above and below the rows: the title, the heading, the status and the keys.
const OTHER_LINES: usize = 4;

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    None,
    Quit,
    Refresh,
    Change(Verb, String),
}

/// What can be done to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Activate,
    Deactivate,
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Deactivate => "deactivate",
        }
    }
}

/// A line of the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub text: String,
    pub is_selected: bool,
}

/// The table, the row that is selected, and the question that is asked, if any.
pub(super) struct View {
    server: String,
    pub sort: Sort,
    /// What was done last, or what went wrong.
    pub status: String,
    agents: Vec<Value>,
    /// The id of the agent that is selected. It stays selected when its row moves.
    selected: String,
    question: Option<(Verb, String)>,
}

/// Aligns agents as the API lists them.
pub(super) fn table(agents: &[Value]) -> String {
    aligned(HEADING, agents.iter().map(|one| row(one, system_clock()())))
}

fn row(one: &Value, now_ms: Millis) -> [String; 7] {
    let agent = agent(one);
    let is_on = agent.get("kill_switch_enabled").and_then(Value::as_bool).unwrap_or_default();
    let score = match one.get("score").and_then(Value::as_f64) {
        Some(score) => format!("{score:.1} / {}", cell(agent, "kill_switch_threshold")),
        None => "-".to_owned(),
    };
    let rate = one.get("calls_per_second").and_then(Value::as_f64).unwrap_or_default();
    let seen = agent.get("last_seen").and_then(Value::as_str).and_then(parse_rfc3339);
    [
        cell(agent, "agent_id"),
        state(agent).to_owned(),
        if is_on { cell(agent, "action") } else { "off".to_owned() },
        score,
        format!("{rate:.2}"),
        cell(one, "envoys"),
        seen.map_or_else(|| "never".to_owned(), |seen_ms| ago(now_ms.saturating_sub(seen_ms) / 1_000)),
    ]
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn agent(one: &Value) -> &Value {
    one.get("agent").unwrap_or(&Value::Null)
}

fn id(one: &Value) -> &str {
    agent(one).get("agent_id").and_then(Value::as_str).unwrap_or_default()
}

impl View {
    pub(super) fn new(server: String, sort: Sort, agents: Vec<Value>) -> Self {
        let (status, selected) = (String::new(), String::new());
        let mut view = Self { server, sort, status, agents: Vec::new(), selected, question: None };
        view.take(Ok(agents));
        view
    }

    /// Takes a new table, or says why there is none and keeps the last one.
    pub(super) fn take(&mut self, agents: Result<Vec<Value>, String>) {
        match agents {
            Ok(agents) => {
                self.agents = agents;
                if self.position().is_none() {
                    self.selected = self.agents.first().map(|one| id(one).to_owned()).unwrap_or_default();
                }
            }
            Err(error) => self.status = error,
        }
    }

    fn position(&self) -> Option<usize> {
        self.agents.iter().position(|one| id(one) == self.selected)
    }

    /// Does what a key says.
    pub(super) fn press(&mut self, key: KeyEvent) -> Reaction {
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Reaction::Quit;
        }
        if let Some((verb, agent_id)) = self.question.take() {
            self.status.clear();
            return match key.code {
                KeyCode::Char('y' | 'Y') => Reaction::Change(verb, agent_id),
                _ => Reaction::None,
            };
        }
        self.status.clear();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Reaction::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.select(|row| row.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(|row| row + 1),
            KeyCode::Home => self.select(|_| 0),
            KeyCode::End => self.select(|_| usize::MAX),
            KeyCode::Char('d') => self.ask(Verb::Deactivate),
            KeyCode::Char('a') => self.ask(Verb::Activate),
            KeyCode::Char('s') => {
                self.sort = if self.sort == Sort::Score { Sort::Rate } else { Sort::Score };
                return Reaction::Refresh;
            }
            KeyCode::Char('r') => return Reaction::Refresh,
            _ => {}
        }
        Reaction::None
    }

    fn select(&mut self, row: impl Fn(usize) -> usize) {
        let last = self.agents.len().saturating_sub(1);
        let wanted = row(self.position().unwrap_or_default()).min(last);
        self.selected = self.agents.get(wanted).map(|one| id(one).to_owned()).unwrap_or_default();
    }

    fn ask(&mut self, verb: Verb) {
        let Some(one) = self.position().and_then(|row| self.agents.get(row)) else { return };
        let is_active = agent(one).get("active").and_then(Value::as_bool).unwrap_or_default();
        if is_active == (verb == Verb::Activate) {
            self.status = format!("{} is {} already", self.selected, if is_active { "active" } else { "inactive" });
            return;
        }
        self.question = Some((verb, self.selected.clone()));
    }

    /// Returns what is on a screen of this size.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<Line> {
        let line = |text: &str, is_selected| Line { text: text.chars().take(width).collect(), is_selected };
        let count = self.agents.len();
        let sort = self.sort.as_str();
        let mut lines = vec![line(&format!("kill-switch top - {} - {count} agents by {sort}", self.server), false)];
        let table = table(&self.agents);
        let mut rows = table.lines();
        lines.push(line(&format!("  {}", rows.next().unwrap_or_default()), false));
        let (room, selected) = (height.saturating_sub(OTHER_LINES).max(1), self.position());
        // The selected row is always visible.
        let first = (selected.unwrap_or_default() + 1).saturating_sub(room);
        for (number, row) in rows.enumerate().skip(first).take(room) {
            let is_selected = selected == Some(number);
            lines.push(line(&format!("{}{row}", if is_selected { "> " } else { "  " }), is_selected));
        }
        lines.resize_with(room + 2, || line("", false));
        lines.push(line(&self.message(), false));
        lines.push(line(KEYS, false));
        lines
    }

    fn message(&self) -> String {
        match &self.question {
            Some((verb, agent_id)) => format!("{} {agent_id}? (y/n)", verb.as_str()),
            None if self.agents.is_empty() && self.status.is_empty() => {
                "no agents yet: one appears when it makes its first call through Envoy".to_owned()
            }
            None => self.status.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(agent_id: &str, active: bool) -> Value {
        let agent = json!({"agent_id": agent_id, "active": active, "deactivated_by": null, "action": "block",
            "kill_switch_enabled": true, "kill_switch_threshold": 10.0, "last_seen": null});
        json!({"agent": agent, "score": 7.5, "calls_per_second": 0.25, "envoys": 2})
    }

    fn view() -> View {
        View::new("http://server".to_owned(), Sort::Score, vec![one("a", true), one("b", false), one("c", true)])
    }

    fn press(view: &mut View, code: KeyCode) -> Reaction {
        view.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn selected(view: &View) -> String {
        let marked: Vec<_> = view.lines(200, 24).into_iter().filter(|line| line.is_selected).collect();
        assert_eq!(marked.len(), 1);
        marked[0].text.clone()
    }

    #[test]
    fn a_row_shows_state_score_rate_and_envoys() {
        let text = table(&[one("a", true)]);
        let cells = text.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        assert_eq!(cells.collect::<Vec<_>>(), ["a", "active", "block", "7.5 / 10.0", "0.25", "2", "never"]);
    }

    #[test]
    fn keys_select_a_row_and_nothing_is_changed_without_a_yes() {
        let mut view = view();
        assert!(selected(&view).starts_with("> a "));
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::Down);
        assert!(selected(&view).starts_with("> c "), "the last row");
        assert_eq!(press(&mut view, KeyCode::Char('d')), Reaction::None);
        assert_eq!(view.message(), "deactivate c? (y/n)");
        assert_eq!(press(&mut view, KeyCode::Char('n')), Reaction::None);
        assert_eq!(view.message(), "");
        press(&mut view, KeyCode::Char('d'));
        let deactivate = Reaction::Change(Verb::Deactivate, "c".to_owned());
        assert_eq!(press(&mut view, KeyCode::Char('y')), deactivate);
        press(&mut view, KeyCode::Up);
        press(&mut view, KeyCode::Char('d'));
        assert_eq!(view.message(), "b is inactive already");
        press(&mut view, KeyCode::Char('a'));
        assert_eq!(press(&mut view, KeyCode::Char('y')), Reaction::Change(Verb::Activate, "b".to_owned()));
        assert_eq!(press(&mut view, KeyCode::Char('q')), Reaction::Quit);
        assert_eq!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Reaction::Quit);
    }

    #[test]
    fn the_selected_agent_stays_selected_when_the_order_changes_and_is_always_visible() {
        let mut view = view();
        press(&mut view, KeyCode::End);
        view.take(Ok(vec![one("c", true), one("a", true), one("b", false)]));
        assert!(selected(&view).starts_with("> c "));
        view.take(Ok((0..50).map(|number| one(&format!("agent-{number}"), true)).collect()));
        assert!(selected(&view).starts_with("> agent-0 "), "the selected agent is gone");
        press(&mut view, KeyCode::End);
        assert!(selected(&view).starts_with("> agent-49 "));
        let lines = view.lines(20, 10);
        assert_eq!((lines.len(), lines.iter().map(|line| line.text.chars().count()).max()), (10, Some(20)));
        view.take(Err("the server is away".to_owned()));
        assert!(selected(&view).starts_with("> agent-49 "), "the last table stays");
        assert_eq!(view.message(), "the server is away");
    }

    #[test]
    fn an_empty_table_says_how_an_agent_appears() {
        let mut view = View::new(String::new(), Sort::Score, Vec::new());
        assert!(view.message().starts_with("no agents yet"));
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::Char('d'));
        assert_eq!(view.lines(80, 24).len(), 24);
    }
}
