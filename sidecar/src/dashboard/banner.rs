//! Why an agent is off, in numbers, and the way back on; and the calls that a kill was judged by.

use agent_kill_switch::wire::{DeactivatedBy, Match};
use maud::{Markup, html};
use serde_json::Value;

use super::layout::key;
use super::query::agent_path;
use super::show::{ago, duration, number};
use super::visitor::Visitor;
use crate::model::{Agent, Event, Millis};

/// What is shown of an agent that is off.
pub(super) fn banner(agent: &Agent, event: Option<&Event>, visitor: &Visitor, now_ms: Millis) -> Markup {
    let by_switch = agent.policy.deactivated_by == Some(DeactivatedBy::KillSwitch);
    let class = if by_switch { "banner killed" } else { "banner inactive" };
    html! {
        section class=(class) aria-label="Why this agent is off" {
            h2 { (if by_switch { "Deactivated by Kill Switch" } else { "Inactive" }) }
            @if let Some(event) = event {
                p.when { "By " strong { bdi { (by(event)) } } ", " (ago(event.body.at_ms, now_ms)) }
                @if !event.body.reason.is_empty() { p.reason { bdi { (event.body.reason) } } }
                @if by_switch { (figures(event)) }
            }
            @if visitor.who.may_change() {
                form.inline.wide method="post" action={ (agent_path(agent.id())) "/activate" } {
                    (key(visitor))
                    label for="reason" { "Reason" }
                    input #reason type="text" name="reason" maxlength="1000" placeholder="What was fixed?";
                    button.primary type="submit" { "Activate" }
                }
                p.hint {
                    "Activating clears the window: the agent starts with an empty history, and earlier calls no longer "
                    "count."
                }
            }
        }
    }
}

fn by(event: &Event) -> String {
    match event.body.detail.get("by").and_then(Value::as_str) {
        Some(by) => format!("{by} ({})", event.body.actor),
        None => event.body.actor.clone(),
    }
}

fn figures(event: &Event) -> Markup {
    let figure = |member: &str| event.body.detail.get(member).and_then(Value::as_f64);
    let envoy = event.body.detail.get("envoy").and_then(Value::as_str).unwrap_or_default();
    let tools = tools(event);
    html! {
        dl.figures {
            @for (member, label) in [
                ("score", "Score"), ("threshold", "Threshold"), ("similar_prompts", "Similar prompts"),
                ("similar_responses", "Similar responses"), ("repeated_tool_calls", "Repeated tool calls"),
                ("window_size", "Window"),
            ] {
                @if let Some(value) = figure(member) { div { dt { (label) } dd { (number(value)) } } }
            }
            @if !tools.is_empty() { div { dt { "Tools" } dd.small { bdi { (tools) } } } }
            @if !envoy.is_empty() { div { dt { "Envoy" } dd.small { bdi { (envoy) } } } }
        }
    }
}

fn tools(event: &Event) -> String {
    let names =
        event.body.detail.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

/// The calls that the latest kill was judged by.
pub(super) fn matches(kill: &Event) -> Markup {
    let listed = kill.body.detail.get("matches").cloned().unwrap_or_default();
    let matches: Vec<Match> = serde_json::from_value(listed).unwrap_or_default();
    let tools = tools(kill);
    html! {
        section.card aria-labelledby="matches" {
            h2 #matches { "Matching calls of the kill" }
            p.hint {
                "Past calls that the last one repeated. Fewer bits apart is more alike; under 3 counts as similar."
            }
            @if matches.is_empty() { p.faint { "The report named none." } }
            @else { (table(&matches, &tools)) }
        }
    }
}

fn table(matches: &[Match], tools: &str) -> Markup {
    html! {
        div.scroll {
            table.list.tight {
                thead {
                    tr {
                        @for heading in ["Calls ago", "Age", "Prompt", "Response", "Tool call", "Fingerprint"] {
                            th scope="col" { (heading) }
                        }
                    }
                }
                tbody {
                    @for one in matches {
                        tr {
                            td.numbers { (one.calls_ago) }
                            td.numbers { (duration(one.age_ms)) }
                            td.numbers { (distance(one.prompt_distance)) }
                            td.numbers { (distance(one.response_distance)) }
                            td {
                                @if one.same_tool_call {
                                    "same: " bdi { (if tools.is_empty() { "unnamed" } else { tools }) }
                                } @else { "–" }
                            }
                            td.id { bdi { (one.prompt_hash) } }
                        }
                    }
                }
            }
        }
    }
}

fn distance(bits: Option<u32>) -> String {
    match bits {
        None => "–".to_owned(),
        Some(1) => "1 bit".to_owned(),
        Some(bits) => format!("{bits} bits"),
    }
}
