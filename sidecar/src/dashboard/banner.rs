//! Why an agent is inactive and how to activate it, and the past calls that the current call of a kill repeated.

use agent_kill_switch::wire::{DeactivatedBy, Match};
use maud::{Markup, html};
use serde_json::Value;

use super::layout::form_key;
use super::query::agent_path;
use super::show::{ago, duration, number, table};
use super::story::story_path;
use super::tools::hint;
use super::visitor::Visitor;
use crate::alerts::tools;
use crate::model::{Agent, Event, Millis, who};

/// Shows why an agent is inactive, and the form that activates it. `event` is the event that deactivated it.
pub(super) fn banner(agent: &Agent, event: Option<&Event>, visitor: &Visitor, now_ms: Millis) -> Markup {
    let by_switch = agent.policy.deactivated_by == Some(DeactivatedBy::KillSwitch);
    let class = if by_switch { "banner killed" } else { "banner inactive" };
    html! {
        section class=(class) aria-label="Why this agent is inactive" {
            h2 { (if by_switch { "Deactivated by Kill Switch" } else { "Inactive" }) }
            @if let Some(event) = event {
                p.when { "By " strong { bdi { (actor(event)) } } ", " (ago(event.body.at_ms, now_ms)) }
                @if !event.body.reason.is_empty() { p.reason { bdi { (event.body.reason) } } }
                @if by_switch {
                    (figures(event))
                    p { a href=(story_path(event)) { "The story of this kill" } }
                    (hint(agent, event, visitor))
                }
            }
            @if visitor.who.may_change() {
                form.inline.wide method="post" action={ (agent_path(agent.id())) "/activate" } {
                    (form_key(visitor))
                    label for="reason" { "Reason" }
                    input #reason type="text" name="reason" maxlength="1000" placeholder="What was fixed?";
                    button.primary type="submit" { "Activate" }
                }
                p.hint {
                    "Activating clears the window: calls that the agent made before are not counted any more."
                }
            }
        }
    }
}

fn actor(event: &Event) -> String {
    who(event.body.detail.get("by").and_then(Value::as_str), &event.body.actor)
}

fn figures(event: &Event) -> Markup {
    let figure = |member: &str| event.body.detail.get(member).and_then(Value::as_f64);
    let envoy = event.body.detail.get("envoy").and_then(Value::as_str).unwrap_or_default();
    let tools = tools(&event.body.detail);
    html! {
        dl.figures {
            @for (member, label) in [
                ("score", "Score"), ("threshold", "Threshold"), ("similar_prompts", "Similar prompts"),
                ("similar_responses", "Similar responses"), ("repeated_tool_calls", "Repeated tool calls"),
                ("failures_in_a_row", "Same failure in a row"), ("repeated_steps", "Repeated steps"),
                ("window_size", "Window"), ("period", "Words repeated"), ("rounds", "Times"),
            ] {
                @if let Some(value) = figure(member) { div { dt { (label) } dd { (number(value)) } } }
            }
            @if !tools.is_empty() { div { dt { "Tools" } dd.small { bdi { (tools) } } } }
            @if !envoy.is_empty() { div { dt { "Envoy" } dd.small { bdi { (envoy) } } } }
        }
    }
}

/// Shows the past calls that were repeated when this kill happened.
pub(super) fn matches(kill: &Event, agent: &Agent, visitor: &Visitor) -> Markup {
    let listed = kill.body.detail.get("matches").cloned().unwrap_or_default();
    let matches: Vec<Match> = serde_json::from_value(listed).unwrap_or_default();
    let tools = tools(&kill.body.detail);
    html! {
        section.card aria-labelledby="matches" {
            h2 #matches { "Repeated calls" }
            p.hint {
                "The past calls that the last call before the kill repeated. The fewer bits differ, the more alike two "
                "texts are; fewer than 3 bits count as similar."
            }
            @if kill.body.detail.contains_key("period") { p.faint { "The model repeated itself inside one answer." } }
            @else if matches.is_empty() { p.faint { "The report lists no calls." } }
            @else { (match_table(&matches, &tools)) }
            // The banner of an agent that is inactive has the same link and the same hint.
            @if agent.policy.active {
                p { a href=(story_path(kill)) { "The story of this kill" } }
                (hint(agent, kill, visitor))
            }
        }
    }
}

/// Shows past calls that were repeated.
pub(super) fn match_table(matches: &[Match], tools: &str) -> Markup {
    table("list tight", &COLUMNS, rows(matches, tools))
}

const COLUMNS: [&str; 6] = ["Calls ago", "Age", "Prompt", "Response", "Tool call", "Fingerprint"];

fn rows(matches: &[Match], tools: &str) -> Markup {
    html! {
        @for one in matches {
            tr {
                td.numbers data-label="Calls ago" { (one.calls_ago) }
                td.numbers data-label="Age" { (duration(one.age_ms)) }
                td.numbers data-label="Prompt" { (distance(one.prompt_distance)) }
                td.numbers data-label="Response" { (distance(one.response_distance)) }
                td data-label="Tool call" {
                    @if one.same_tool_call { "same: " bdi { (if tools.is_empty() { "unnamed" } else { tools }) } }
                    @else { "–" }
                }
                td.id data-label="Fingerprint" { bdi { (one.prompt_hash) } }
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
