//! The settings of an agent that a person may change.
//!
//! The JSON object is read by hand, because the messages of serde are about types, and a person needs the name of the
//! field and its bounds. Numbers are checked by the filter's own functions, so the bounds are defined only once.

use std::str::FromStr;

use agent_kill_switch::policy::{
    MAX_IDLE_RESET_SECONDS, MAX_RETRY_AFTER_SECONDS, MAX_SESSION_STOP_SECONDS, MAX_STOPPED_SESSIONS, MAX_WINDOW_SIZE,
    MIN_WINDOW_SIZE, check_escalate_after, check_idle_reset, check_retry_after, check_session_stop, check_settings,
};
use agent_kill_switch::wire::{Action, AnswerLoop, Counting, Scope, ToolRule, ToolRules, UnknownWord};
use serde_json::{Map, Value, json};

use super::error::{Error, Result};
use super::tools;
use crate::model::Agent;

/// The longest name of an agent, in characters.
pub(super) const MAX_NAME: usize = 200;

/// Which names a resource uses for the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The names of the agent, such as `kill_switch_window_size`.
    Agent,
    /// The shorter names of the `/kill-switch` resource, such as `window_size`. The names of the agent are understood
    /// too.
    KillSwitch,
    /// The names in a policy file: those of [`Names::KillSwitch`], and the name of the agent.
    File,
}

/// The settings to change. A setting that is absent keeps its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    name: Option<String>,
    enabled: Option<bool>,
    window_size: Option<f64>,
    threshold: Option<f64>,
    action: Option<Action>,
    counting: Option<Counting>,
    retry_after_seconds: Option<f64>,
    idle_reset_seconds: Option<f64>,
    scope: Option<Scope>,
    session_stop_seconds: Option<f64>,
    escalate_after: Option<f64>,
    answer_loop: Option<AnswerLoop>,
    tools: Option<ToolRules>,
    ignored_tool: Option<String>,
}

impl Change {
    /// Parses a JSON object. Unknown members are refused: an agent must not stay unprotected because of a typing error
    /// in `threshold`.
    pub fn parse(body: &Map<String, Value>, names: Names) -> Result<Self> {
        let mut change = Self::default();
        for (given, value) in body {
            let field = canonical(given, names);
            match field {
                "name" if names != Names::KillSwitch => change.name = Some(name(field, value)?),
                "kill_switch_enabled" => change.enabled = Some(boolean(field, value)?),
                "kill_switch_window_size" => {
                    change.window_size = Some(whole(field, value, MIN_WINDOW_SIZE, MAX_WINDOW_SIZE)?);
                }
                "kill_switch_threshold" => change.threshold = Some(number(field, value, "a number above 0")?),
                "action" => change.action = Some(word(field, value)?),
                "counting" => change.counting = Some(word(field, value)?),
                "retry_after_seconds" => {
                    change.retry_after_seconds = Some(whole(field, value, 1, MAX_RETRY_AFTER_SECONDS)?);
                }
                "idle_reset_seconds" => {
                    change.idle_reset_seconds = Some(whole(field, value, 0, MAX_IDLE_RESET_SECONDS)?);
                }
                "scope" => change.scope = Some(word(field, value)?),
                "session_stop_seconds" => {
                    change.session_stop_seconds = Some(whole(field, value, 1, MAX_SESSION_STOP_SECONDS)?);
                }
                "escalate_after" => change.escalate_after = Some(whole(field, value, 0, MAX_STOPPED_SESSIONS)?),
                "answer_loop" => change.answer_loop = Some(word(field, value)?),
                "tools" => change.tools = Some(tools::parse_tools(value)?),
                _ => return Err(not_settable(given)),
            }
        }
        Ok(change)
    }

    /// Returns the change that one more tool is ignored.
    pub fn ignoring(tool: &str) -> Result<Self> {
        tools::check_name(tool)?;
        Ok(Self { ignored_tool: Some(tool.to_owned()), ..Self::default() })
    }

    /// Applies the change. If the result is out of bounds, the agent stays as it was.
    pub fn apply(&self, agent: &mut Agent) -> Result<()> {
        let policy = &agent.policy;
        let window_size = self.window_size.unwrap_or(f64::from(policy.kill_switch_window_size));
        let threshold = self.threshold.unwrap_or(policy.kill_switch_threshold);
        let or = |given: Option<f64>, current: u32| given.unwrap_or(f64::from(current));
        let (window_size, threshold) = check_settings(window_size, threshold)?;
        let retry_after = check_retry_after(or(self.retry_after_seconds, policy.retry_after_seconds))?;
        let idle_reset = check_idle_reset(or(self.idle_reset_seconds, policy.idle_reset_seconds))?;
        let session_stop = check_session_stop(or(self.session_stop_seconds, policy.session_stop_seconds))?;
        let escalate_after = check_escalate_after(or(self.escalate_after, policy.escalate_after))?;
        let mut tools = self.tools.as_ref().unwrap_or(&policy.tools).clone();
        if let Some(name) = &self.ignored_tool {
            tools.set(name, Some(ToolRule::Ignore));
        }
        tools::check_tools(&tools, window_size)?;

        let policy = &mut agent.policy;
        policy.kill_switch_window_size = window_size;
        policy.kill_switch_threshold = threshold;
        policy.retry_after_seconds = retry_after;
        policy.idle_reset_seconds = idle_reset;
        policy.session_stop_seconds = session_stop;
        policy.escalate_after = escalate_after;
        policy.tools = tools;
        policy.answer_loop = self.answer_loop.unwrap_or(policy.answer_loop);
        policy.scope = self.scope.unwrap_or(policy.scope);
        policy.kill_switch_enabled = self.enabled.unwrap_or(policy.kill_switch_enabled);
        policy.action = self.action.unwrap_or(policy.action);
        policy.counting = self.counting.unwrap_or(policy.counting);
        if let Some(name) = &self.name {
            agent.name.clone_from(name);
        }
        Ok(())
    }
}

/// Returns the current settings of an agent.
pub(super) fn settings(agent: &Agent) -> Map<String, Value> {
    let policy = &agent.policy;
    let settings = json!({
        "name": agent.name,
        "kill_switch_enabled": policy.kill_switch_enabled,
        "kill_switch_window_size": policy.kill_switch_window_size,
        "kill_switch_threshold": policy.kill_switch_threshold,
        "action": policy.action,
        "counting": policy.counting,
        "retry_after_seconds": policy.retry_after_seconds,
        "idle_reset_seconds": policy.idle_reset_seconds,
        "scope": policy.scope,
        "session_stop_seconds": policy.session_stop_seconds,
        "escalate_after": policy.escalate_after,
        "answer_loop": policy.answer_loop,
        "tools": policy.tools,
    });
    match settings {
        Value::Object(settings) => settings,
        _ => Map::new(),
    }
}

/// Returns the settings that differ between two states of an agent: `{"field": {"from": a, "to": b}}`.
pub(super) fn difference(before: &Agent, after: &Agent) -> Map<String, Value> {
    let mut before = settings(before);
    settings(after)
        .into_iter()
        .filter_map(|(field, to)| {
            let from = before.remove(&field).unwrap_or_default();
            (from != to).then(|| (field, json!({"from": from, "to": to})))
        })
        .collect()
}

/// The settings whose names are shorter in the `/kill-switch` resource and in policy files.
const SHORT: [(&str, &str); 3] = [
    ("enabled", "kill_switch_enabled"),
    ("window_size", "kill_switch_window_size"),
    ("threshold", "kill_switch_threshold"),
];

fn canonical(field: &str, names: Names) -> &str {
    let long = SHORT.iter().find(|(short, _)| names != Names::Agent && *short == field);
    long.map_or(field, |(_, long)| long)
}

/// Returns the name that a policy file uses for a setting.
pub(super) fn short(field: &str) -> &str {
    SHORT.iter().find(|(_, long)| *long == field).map_or(field, |(short, _)| short)
}

fn not_settable(field: &str) -> Error {
    let detail = match field {
        "active" | "deactivated_by" => format!("{field} is changed by POST .../activate and .../deactivate"),
        "agent_id" | "generation" | "first_seen" | "last_seen" | "reason" => format!("{field} cannot be set"),
        _ => format!("{} is not a setting", clip(field)),
    };
    Error::invalid(clip(field), detail)
}

/// Returns a text short enough to be repeated in a message.
pub(super) fn clip(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

pub(super) fn must_be(field: &str, value: &Value, expected: &str) -> Error {
    Error::invalid(field, format!("{field} ({}) must be {expected}", clip(&value.to_string())))
}

pub(super) fn boolean(field: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| must_be(field, value, "true or false"))
}

fn number(field: &str, value: &Value, bounds: &str) -> Result<f64> {
    value.as_f64().ok_or_else(|| must_be(field, value, bounds))
}

fn whole(field: &str, value: &Value, min: u32, max: u32) -> Result<f64> {
    number(field, value, &format!("a whole number from {min} to {max}"))
}

fn word<T: FromStr<Err = UnknownWord>>(field: &str, value: &Value) -> Result<T> {
    value.as_str().unwrap_or_default().parse().map_err(|unknown: UnknownWord| must_be(field, value, unknown.allowed))
}

pub(super) fn name(field: &str, value: &Value) -> Result<String> {
    let bounds = format!("a text of at most {MAX_NAME} characters without control characters");
    let refused = || must_be(field, value, &bounds);
    let name = value.as_str().ok_or_else(refused)?;
    if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(refused());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(body: Value, names: Names) -> Result<Change> {
        Change::parse(body.as_object().unwrap(), names)
    }

    fn refusal(body: Value) -> (String, String) {
        let applied = change(body, Names::Agent).and_then(|change| change.apply(&mut Agent::new("a", 1)));
        match applied.unwrap_err() {
            Error::Invalid { field, detail } => (field, detail),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_its_bounds() {
        let whole = "must be a whole number from 2 to 100";
        for (body, field, bounds) in [
            (json!({"kill_switch_window_size": "abc"}), "kill_switch_window_size", whole),
            (json!({"kill_switch_window_size": 7.5}), "kill_switch_window_size", whole),
            (json!({"kill_switch_window_size": 1}), "kill_switch_window_size", whole),
            (json!({"kill_switch_window_size": 101}), "kill_switch_window_size", whole),
            (json!({"kill_switch_window_size": null}), "kill_switch_window_size", whole),
            (json!({"kill_switch_window_size": 1e300}), "kill_switch_window_size", whole),
            (json!({"kill_switch_threshold": 0}), "kill_switch_threshold", "must be above 0"),
            (json!({"kill_switch_threshold": -1}), "kill_switch_threshold", "must be above 0"),
            (json!({"kill_switch_threshold": "NaN"}), "kill_switch_threshold", "must be a number above 0"),
            (json!({"kill_switch_threshold": 83.5}), "kill_switch_threshold", "must be below 83.5"),
            (json!({"kill_switch_window_size": 3}), "kill_switch_threshold", "must be below 7"),
            (json!({"kill_switch_enabled": 1}), "kill_switch_enabled", "must be true or false"),
            (json!({"action": "explode"}), "action", "must be deactivate, block or observe"),
            (json!({"counting": 3}), "counting", "must be progress or literal"),
            (json!({"retry_after_seconds": 0}), "retry_after_seconds", "must be a whole number from 1 to 86400"),
            (json!({"idle_reset_seconds": -1}), "idle_reset_seconds", "must be a whole number from 0 to 86400"),
            (json!({"idle_reset_seconds": 86_401}), "idle_reset_seconds", "must be a whole number from 0 to 86400"),
            (json!({"scope": "team"}), "scope", "must be agent or session"),
            (json!({"session_stop_seconds": 0}), "session_stop_seconds", "must be a whole number from 1 to 604800"),
            (json!({"session_stop_seconds": "1h"}), "session_stop_seconds", "must be a whole number from 1 to 604800"),
            (json!({"escalate_after": 65}), "escalate_after", "must be a whole number from 0 to 64"),
            (json!({"escalate_after": 1.5}), "escalate_after", "must be a whole number from 0 to 64"),
            (json!({"answer_loop": "stop"}), "answer_loop", "must be off, observe or cut"),
            (json!({"tools": ["wait"]}), "tools", "must be an object of tools"),
            (
                json!({"tools": {"wait": "never"}}),
                "tools",
                r#"tools.wait ("never") must be "ignore" or a whole number"#,
            ),
            (json!({"tools": {"status": 1}}), "tools", "tools.status (1) must be"),
            (json!({"tools": {"status": 101}}), "tools", "a whole number from 2 to 100"),
            (json!({"tools": {"status": 2.5}}), "tools", "tools.status (2.5) must be"),
            (json!({"tools": {"": "ignore"}}), "tools", r#"the name "" must have 1 to 128 characters"#),
            (json!({"tools": {"a\nb": "ignore"}}), "tools", r#"the name "a\nb" must have"#),
            (json!({"tools": {("x".repeat(129)): "ignore"}}), "tools", "must have 1 to 128 characters"),
            (json!({"tools": {"status": 21}}), "tools", "(21) must be at most kill_switch_window_size (20)"),
            (json!({"name": "a\nb"}), "name", "must be a text of at most 200 characters"),
            (json!({"active": false}), "active", "is changed by POST .../activate"),
            (json!({"treshold": 3}), "treshold", "is not a setting"),
            (json!({"threshold": 3}), "threshold", "is not a setting"),
        ] {
            let (named, detail) = refusal(body.clone());
            assert_eq!(named, field, "{body}");
            assert!(detail.contains(bounds), "{body}: {detail}");
        }
    }

    #[test]
    fn a_refused_change_leaves_the_agent_as_it_was() {
        let mut agent = Agent::new("a", 1);
        let before = agent.clone();
        let body = json!({"name": "new", "kill_switch_enabled": true, "kill_switch_window_size": 2});
        change(body, Names::Agent).unwrap().apply(&mut agent).unwrap_err();
        assert_eq!(agent, before);
    }

    #[test]
    fn tools_are_replaced_as_a_whole_and_bounded_by_number_and_window() {
        let mut agent = Agent::new("a", 1);
        let mut apply = |body: Value| {
            let applied = change(body, Names::Agent).and_then(|change| change.apply(&mut agent));
            applied.map(|()| json!(agent.policy.tools)).map_err(|error| error.to_string())
        };
        let both = json!({"status": 20, "wait": "ignore"});
        assert_eq!(apply(json!({"tools": both})), Ok(both.clone()));
        assert_eq!(apply(json!({"action": "block"})), Ok(both.clone()));
        let refused = apply(json!({"kill_switch_window_size": 10})).unwrap_err();
        assert!(refused.contains("tools.status (20) must be at most kill_switch_window_size (10)"), "{refused}");
        let smaller = apply(json!({"kill_switch_window_size": 10, "tools": {"status": 10}}));
        assert_eq!(smaller, Ok(json!({"status": 10})));
        assert_eq!(apply(json!({"tools": {}})), Ok(json!({})));
        let named = |count: usize| (0..count).map(|n| (format!("tool{n}"), json!("ignore"))).collect::<Map<_, _>>();
        apply(json!({"tools": named(32)})).unwrap();
        let refused = apply(json!({"tools": named(33)})).unwrap_err();
        assert!(refused.contains("tools (33 tools) must have at most 32 tools"), "{refused}");
    }

    #[test]
    fn ignoring_one_more_tool_keeps_the_others() {
        let mut agent = Agent::new("a", 1);
        change(json!({"tools": {"status": 20, "wait": 5}}), Names::Agent).unwrap().apply(&mut agent).unwrap();
        Change::ignoring("wait").unwrap().apply(&mut agent).unwrap();
        assert_eq!(json!(agent.policy.tools), json!({"status": 20, "wait": "ignore"}));
        assert!(Change::ignoring("").is_err());
    }

    #[test]
    fn the_kill_switch_resource_takes_short_and_long_names() {
        let short = change(json!({"enabled": true, "window_size": 8, "threshold": 5}), Names::KillSwitch).unwrap();
        let long = json!({"kill_switch_enabled": true, "kill_switch_window_size": 8, "kill_switch_threshold": 5});
        assert_eq!(short, change(long.clone(), Names::KillSwitch).unwrap());
        assert_eq!(short, change(long, Names::Agent).unwrap());
    }

    #[test]
    fn a_partial_change_keeps_the_rest() {
        let mut agent = Agent::new("a", 1);
        change(json!({"kill_switch_threshold": 12.5}), Names::Agent).unwrap().apply(&mut agent).unwrap();
        assert_eq!(agent.policy.kill_switch_threshold, 12.5);
        assert_eq!(agent.policy.kill_switch_window_size, 20);
        assert!(!agent.policy.kill_switch_enabled);
    }
}
