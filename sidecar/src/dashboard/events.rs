//! The list of events, with filters.

use axum::extract::State;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::error::Result;
use super::layout::Page;
use super::query::{Fields, agent_path, query};
use super::show::{ago, clock, number};
use super::story::story_path;
use super::visitor::Visitor;
use super::{Dashboard, show};
use crate::alerts::session_name;
use crate::api::page::cut;
use crate::clock::parse_rfc3339;
use crate::model::{Event, EventType, Millis, actor_name};
use crate::service::is_kill;
use crate::store::{EventQuery, EventRange};

const PAGE: u32 = 100;
const FILTERS: [&str; 4] = ["agent_id", "event_type", "since", "until"];

/// Returns the query for the events that the parameters ask for.
pub(super) fn wanted(params: &Fields, range: EventRange, limit: u32) -> EventQuery {
    EventQuery {
        range,
        agent_id: params.given("agent_id"),
        event_type: EventType::parse(params.text("event_type")),
        since_ms: parse_rfc3339(params.text("since")),
        until_ms: parse_rfc3339(params.text("until")),
        limit,
    }
}

pub(super) async fn page(State(dashboard): State<Dashboard>, visitor: Visitor, params: Fields) -> Result<Markup> {
    let before = params.text("before").parse().ok();
    let found = dashboard.service.events(&wanted(&params, EventRange::Before(before), PAGE + 1)).await?;
    let (events, next) = cut(found, PAGE, |event| event.id.to_string());
    let filters = FILTERS.map(|name| (name, params.text(name)));
    let export =
        |format: &str| format!("/events/export{}", query(&[&[("format", format)], filters.as_slice()].concat()));
    Ok(Page { title: "Events", here: "/events", visitor: &visitor }.with(html! {
        h1 { "Events" }
        form.toolbar method="get" action="/events" {
            div {
                label for="agent_id" { "Agent" }
                input #agent_id type="text" name="agent_id" value=(params.text("agent_id")) placeholder="any";
            }
            div { label for="event_type" { "Type" }
                select #event_type name="event_type" {
                    option value="" { "any" }
                    @for one in EventType::ALL.map(EventType::as_str) {
                        option value=(one) selected[params.text("event_type") == one] { (one) }
                    }
                }
            }
            div { label for="since" { "From" } input #since type="date" name="since" value=(params.text("since")); }
            div { label for="until" { "Before" } input #until type="date" name="until" value=(params.text("until")); }
            button type="submit" { "Filter" }
            span.export { a href=(export("jsonl")) { "Export JSONL" } " " a href=(export("csv")) { "Export CSV" } }
        }
        div #events data-live { (table(&events, dashboard.service.now(), Agents::Shown)) }
        @if let Some(next) = next {
            p.pager { a href={ "/events" (query(&[filters.as_slice(), &[("before", &next)]].concat())) } { "Older" } }
        }
    }))
}

/// Whether a table of events has a column for the agent.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Agents {
    Shown,
    Hidden,
}

/// Shows events as a table.
pub(super) fn table(events: &[Event], now_ms: Millis, agents: Agents) -> Markup {
    if events.is_empty() {
        return html! { p.empty.faint { "There are no events." } };
    }
    let headings: &[&str] = match agents {
        Agents::Shown => &["When", "What", "Agent", "Who", "Why"],
        Agents::Hidden => &["When", "What", "Who", "Why"],
    };
    let rows = html! {
        @for event in events {
            tr {
                td { (ago(event.body.at_ms, now_ms)) }
                td { span class={ "kind " (event.body.event_type.as_str()) } { (event.body.event_type.as_str()) } }
                @if agents == Agents::Shown {
                    td {
                        @if event.body.agent_id.is_empty() { span.faint { "all agents" } }
                        @else { a href=(agent_path(&event.body.agent_id)) { bdi { (event.body.agent_id) } } }
                    }
                }
                td data-label="By" { bdi { (actor_name(&event.body.actor)) } }
                td.why { (why(event)) }
            }
        }
    };
    show::table("list events", headings, rows)
}

fn why(event: &Event) -> Markup {
    let detail = &event.body.detail;
    let figure = |member: &str| detail.get(member).and_then(Value::as_f64);
    let changes = detail.get("changes").and_then(Value::as_object);
    html! {
        @if !event.body.reason.is_empty() { bdi { (event.body.reason) } " " }
        @if let (Some(score), Some(threshold)) = (figure("score"), figure("threshold")) {
            span.faint { "score " (number(score)) " > " (number(threshold)) }
        }
        @if let Some(answers) = figure("answers").filter(|answers| *answers > 1.0) {
            span.change { "in " (number(answers)) " answers since the event before" }
        }
        @if detail.get("paused").is_some() { span.change { "nothing was stopped: the kill switch was paused" } }
        @if let Some(back) = figure("agents_given_back") { span.change { "agents given back: " (number(back)) } }
        @if let Some(name) = session_name(detail) {
            span.change { "conversation " bdi { (name) } (stopped_until(detail)) }
        }
        @if is_kill(event) { a.change href=(story_path(event)) { "Story of this event" } }
        @for (field, change) in changes.into_iter().flatten() {
            span.change {
                (field.trim_start_matches("kill_switch_")) " "
                bdi { (text(change.get("from"))) } " → " bdi { (text(change.get("to"))) }
            }
        }
    }
}

/// Says until when a conversation is stopped, if the event stopped one.
fn stopped_until(detail: &Map<String, Value>) -> String {
    match detail.get("until").and_then(Value::as_str).and_then(parse_rfc3339) {
        Some(until_ms) => format!(" was stopped until {}; the agent itself goes on", clock(until_ms)),
        None => String::new(),
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
