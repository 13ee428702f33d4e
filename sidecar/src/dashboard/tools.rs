//! Tools whose calls are counted differently: their part of the settings form, and the button under a kill that adds one.

use agent_kill_switch::policy::{MAX_TOOL_COUNT, MAX_TOOL_NAME, MAX_TOOLS, MIN_TOOL_COUNT};
use agent_kill_switch::wire::{IGNORE, ToolRule, ToolRules};
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::Dashboard;
use super::agent::back;
use super::error::Result;
use super::form::Form;
use super::layout::form_key;
use super::query::{Fields, agent_path};
use super::visitor::Visitor;
use crate::model::{Agent, Event};
use crate::service::Change;

/// How many empty rows the form has for further tools.
const EMPTY_ROWS: usize = 2;

/// The value of the list that counts a tool from a number of times on.
const COUNT_FROM: &str = "count_from";

const RULES: [(&str, &str); 2] = [(IGNORE, "never counted"), (COUNT_FROM, "counted from")];

/// One row of the form, as it is shown.
struct Row {
    tool: String,
    rule: String,
    times: String,
}

impl Row {
    fn saved((tool, rule): (&str, ToolRule)) -> Self {
        let (rule, times) = match rule {
            ToolRule::Ignore => (IGNORE, String::new()),
            ToolRule::CountFrom(times) => (COUNT_FROM, times.to_string()),
        };
        Self { tool: tool.to_owned(), rule: rule.to_owned(), times }
    }

    /// Reads the rows of a form in which a tool is named.
    fn typed(fields: &Fields) -> impl Iterator<Item = Self> {
        let numbers = fields.all("tool_rule").zip(fields.all("tool_times"));
        let rows = fields.all("tool").zip(numbers).map(|(tool, (rule, times))| Self {
            tool: tool.trim().to_owned(),
            rule: rule.to_owned(),
            times: times.trim().to_owned(),
        });
        rows.filter(|row| !row.tool.is_empty())
    }
}

/// Returns the tools of a form as the service takes them. A row without a name is left out.
pub(super) fn value(fields: &Fields) -> Value {
    let rule = |row: &Row| match row.rule.as_str() {
        COUNT_FROM => row.times.parse::<u64>().map_or_else(|_| Value::from(row.times.as_str()), Value::from),
        rule => Value::from(rule),
    };
    let tools: Map<_, _> = Row::typed(fields).map(|row| (row.tool.clone(), rule(&row))).collect();
    Value::from(tools)
}

/// Shows the tools in the settings form: those that are saved, or those that were typed.
pub(super) fn fieldset(saved: &ToolRules, typed: Option<&Fields>, may_change: bool) -> Markup {
    let mut rows: Vec<Row> = match typed {
        Some(fields) => Row::typed(fields).collect(),
        None => saved.iter().map(Row::saved).collect(),
    };
    if may_change {
        let empty = || Row { tool: String::new(), rule: IGNORE.to_owned(), times: String::new() };
        let count = EMPTY_ROWS.min(MAX_TOOLS.saturating_sub(rows.len()));
        rows.extend(std::iter::repeat_with(empty).take(count));
    }
    html! {
        fieldset.field #tools aria-describedby="tools_hint" {
            legend { "Tools" }
            @for (index, row) in rows.iter().enumerate() {
                div.tool {
                    input id={ "tool_" (index) } type="text" name="tool" maxlength=(MAX_TOOL_NAME) value=(row.tool)
                        placeholder="Name of a tool" aria-label="Tool" disabled[!may_change];
                    select id={ "tool_rule_" (index) } name="tool_rule" aria-label="How it is counted"
                        disabled[!may_change] {
                        @for (value, label) in RULES {
                            option value=(value) selected[value == row.rule] { (label) }
                        }
                    }
                    input id={ "tool_times_" (index) } type="number" name="tool_times" min=(MIN_TOOL_COUNT)
                        max=(MAX_TOOL_COUNT) step="1" value=(row.times) placeholder="times" aria-label="Number of times"
                        disabled[!may_change];
                }
            }
            p.hint #tools_hint {
                "For agents that wait. Calls of a tool that is never counted are forwarded and not compared. Calls of a tool "
                "that is counted from a number of times on count only if the same call with the same result comes that "
                "often in the window. Empty the name of a tool to count it as usual. Save to get more rows."
            }
        }
    }
}

/// Shows under a kill how to ignore the tools that it is about.
pub(super) fn hint(agent: &Agent, kill: &Event, visitor: &Visitor) -> Markup {
    let listed = kill.body.detail.get("tools").and_then(Value::as_array);
    let tools: Vec<&str> = listed.into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        @for tool in tools {
            @let is_ignored = agent.policy.tools.get(tool) == Some(ToolRule::Ignore);
            @if is_ignored {
                p.hint { "Calls of " strong { bdi { (tool) } } " are never counted any more: see Tools in the settings." }
            } @else if visitor.who.may_change() {
                form.ignore method="post" action={ (agent_path(agent.id())) "/tools" } {
                    (form_key(visitor))
                    input type="hidden" name="tool" value=(tool);
                    p.hint {
                        "Does this agent wait by calling " strong { bdi { (tool) } } "? Then ignore the tool: its calls are "
                        "forwarded and never counted, and all other calls are counted as before."
                    }
                    button type="submit" { "Ignore this tool" }
                }
            }
        }
    }
}

/// Ignores one more tool.
pub(super) async fn ignore(State(dashboard): State<Dashboard>, Path(id): Path<String>, form: Form) -> Result<Response> {
    let change = Change::ignoring(form.fields.text("tool"))?;
    dashboard.service.patch_agent(&id, &change, &form.visitor.caller()).await?;
    Ok(back(&id, "ignored"))
}
