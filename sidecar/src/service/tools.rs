//! The rules of an agent's tools, as a person sets them: `{"wait_for_job": "ignore", "get_status": 20}`.

use agent_kill_switch::policy::{MAX_TOOL_COUNT, MAX_TOOL_NAME, MAX_TOOLS, MIN_TOOL_COUNT};
use agent_kill_switch::wire::{IGNORE, ToolRule, ToolRules};
use serde_json::Value;

use super::error::{Error, Result};
use super::settings::{clip, must_be};

/// The name of the setting.
const FIELD: &str = "tools";

/// Parses a JSON object of tools.
pub(super) fn parse(value: &Value) -> Result<ToolRules> {
    let example = r#"an object of tools, such as {"wait_for_job": "ignore", "get_status": 20}"#;
    let given = value.as_object().ok_or_else(|| must_be(FIELD, value, example))?;
    let mut rules = ToolRules::default();
    for (name, value) in given {
        check_name(name)?;
        rules.set(name, Some(rule(name, value)?));
    }
    Ok(rules)
}

fn rule(name: &str, value: &Value) -> Result<ToolRule> {
    let times = value.as_u64().and_then(|times| u32::try_from(times).ok());
    match times.filter(|times| (MIN_TOOL_COUNT..=MAX_TOOL_COUNT).contains(times)) {
        Some(times) => Ok(ToolRule::CountFrom(times)),
        None if value == IGNORE => Ok(ToolRule::Ignore),
        None => {
            let bounds = format!(r#"must be "{IGNORE}" or a whole number from {MIN_TOOL_COUNT} to {MAX_TOOL_COUNT}"#);
            Err(refused(format!("tools.{} ({}) {bounds}", clip(name), clip(&value.to_string()))))
        }
    }
}

/// Returns an error if no tool can have this name.
pub(super) fn check_name(name: &str) -> Result<()> {
    let length = name.chars().count();
    if (1..=MAX_TOOL_NAME).contains(&length) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let shown = clip(&Value::from(name).to_string());
    Err(refused(format!(
        "tools: the name {shown} must have 1 to {MAX_TOOL_NAME} characters, and no control characters"
    )))
}

/// Checks rules together with the window that they are applied in.
pub(super) fn check(rules: &ToolRules, window_size: u32) -> Result<()> {
    let count = rules.iter().len();
    if count > MAX_TOOLS {
        return Err(refused(format!("tools ({count} tools) must have at most {MAX_TOOLS} tools")));
    }
    for (name, rule) in rules.iter() {
        if let ToolRule::CountFrom(times) = rule
            && times > window_size
        {
            let name = clip(name);
            return Err(refused(format!(
                "tools.{name} ({times}) must be at most kill_switch_window_size ({window_size}), because no more calls are \
                 compared"
            )));
        }
    }
    Ok(())
}

fn refused(detail: String) -> Error {
    Error::invalid(FIELD, detail)
}
