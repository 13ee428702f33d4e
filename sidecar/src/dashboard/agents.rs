//! Every agent at a glance: found, filtered, and stopped several at a time.

use agent_kill_switch::wire::{DeactivatedBy, ScoreSample};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, json};

use super::Dashboard;
use super::error::Result;
use super::form::Form;
use super::layout::{Page, key};
use super::query::{Query, agent_path, query};
use super::show::{ago_or, badge, number};
use super::timeline::sparkline;
use super::visitor::Visitor;
use crate::model::{Agent, Millis};
use crate::service::Note;
use crate::store::AgentQuery;

/// What makes the first agent appear.
const FIRST_CALL: &str = r#"curl http://127.0.0.1:10000/v1/chat/completions \
  -H 'x-agent-id: my-agent' -H 'content-type: application/json' \
  -d '{"model": "any", "messages": [{"role": "user", "content": "hello"}]}'"#;
const PAGE: u32 = 50;
/// Scores in a sparkline.
const SPARK: u32 = 30;
/// As many as fit into an address.
const MAX_BULK: usize = 200;

/// The states that can be filtered by: the word in the address, and the text.
const STATES: [(&str, &str); 4] =
    [("", "All"), ("active", "Active"), ("killed", "Deactivated by Kill Switch"), ("inactive", "Inactive")];

pub(super) async fn list(State(dashboard): State<Dashboard>, visitor: Visitor, params: Query) -> Result<Markup> {
    let state = params.text("state");
    let (active, deactivated_by) = match state {
        "active" => (Some(true), None),
        "killed" => (Some(false), Some(DeactivatedBy::KillSwitch)),
        "inactive" => (Some(false), Some(DeactivatedBy::Manual)),
        _ => (None, None),
    };
    let search = params.given("q");
    let wanted = AgentQuery {
        after: params.given("after"),
        search,
        active,
        deactivated_by,
        kill_switch_enabled: None,
        limit: PAGE + 1,
    };
    let mut found = dashboard.service.agents(&wanted).await?;
    let has_more = found.len() > PAGE as usize;
    found.truncate(PAGE as usize);
    let mut rows = Vec::new();
    for agent in found {
        let scores = dashboard.service.scores(agent.id(), 0, SPARK).await.unwrap_or_default();
        rows.push((agent, scores));
    }
    let next = rows.last().filter(|_| has_more).map(|(agent, _)| agent.id().to_owned());
    let is_filtered = !params.text("q").is_empty() || !state.is_empty() || wanted.after.is_some();
    let page = Page { title: "Agents", here: "/", visitor: &visitor };
    Ok(page.with(html! {
        h1 { "Agents" }
        (undo_notice(&params, &visitor))
        (filters(&params))
        div #agents data-live {
            @if rows.is_empty() && !is_filtered { (empty()) }
            @else if rows.is_empty() { p.card.empty { "No agent matches. " a href="/" { "Show all" } } }
            @else { (table(&rows, &visitor, dashboard.service.now())) }
        }
        @if let Some(next) = next {
            @let after = query(&[("q", params.text("q")), ("state", state), ("after", &next)]);
            p.pager { a href={ "/" (after) } { "Next page" } }
        }
    }))
}

fn filters(params: &Query) -> Markup {
    let (search, state) = (params.text("q"), params.text("state"));
    html! {
        div.toolbar {
            nav.tabs aria-label="State" {
                @for (word, text) in STATES {
                    @let is_here = (word == state).then_some("true");
                    a href={ "/" (query(&[("q", search), ("state", word)])) } aria-current=[is_here] { (text) }
                }
            }
            form.inline role="search" method="get" action="/" {
                @if !state.is_empty() { input type="hidden" name="state" value=(state); }
                label.sr for="q" { "Search agents" }
                input #q type="search" name="q" value=(search) placeholder="Search id or name";
                button type="submit" { "Search" }
            }
        }
    }
}

fn table(rows: &[(Agent, Vec<ScoreSample>)], visitor: &Visitor, now_ms: Millis) -> Markup {
    let may = visitor.who.may_change();
    html! {
        form method="post" action="/bulk/deactivate" {
            (key(visitor))
            div.scroll { table.list {
                thead { tr {
                    @if may { th.tick { label { span.sr { "Select all" } input type="checkbox" data-all; } } }
                    th scope="col" { "Agent" } th scope="col" { "State" } th scope="col" { "Kill switch" }
                    th scope="col" { "Last score" } th scope="col" { "Last seen" }
                } }
                tbody {
                    @for (agent, scores) in rows {
                        tr id={ "row-" (agent.id()) } {
                            @if may {
                                td.tick {
                                    label {
                                        span.sr { "Select " bdi { (agent.id()) } }
                                        input type="checkbox" name="agent_id" value=(agent.id())
                                            disabled[!agent.policy.active];
                                    }
                                }
                            }
                            th scope="row" { (name(agent)) }
                            td { (badge(agent)) }
                            td { (switch(agent)) }
                            td.numbers { (sparkline(scores, agent.policy.kill_switch_threshold)) }
                            td { (ago_or(agent.last_seen_ms, now_ms, "never")) }
                        }
                    }
                }
            } }
            @if may {
                div.bulk {
                    button.danger type="submit" { "Deactivate selected" }
                    span.hint { "Stops the ticked agents at once; you can undo it." }
                }
            }
        }
    }
}

/// A link to an agent by its name, its id below.
pub(super) fn name(agent: &Agent) -> Markup {
    html! {
        a.agent href=(agent_path(agent.id())) { bdi { (if agent.name.is_empty() { agent.id() } else { &agent.name }) } }
        @if !agent.name.is_empty() { span.id { bdi { (agent.id()) } } }
    }
}

fn switch(agent: &Agent) -> Markup {
    let policy = &agent.policy;
    html! {
        @if policy.kill_switch_enabled {
            span.switch.on { "On" }
            span.faint { " " (policy.action.as_str()) " over " (number(policy.kill_switch_threshold)) }
        } @else {
            span.switch.off { "Off" }
        }
    }
}

fn empty() -> Markup {
    html! {
        section.card.empty {
            h2 { "No agents yet" }
            p { "An agent appears here by itself with its first call through Envoy. Send one:" }
            pre { code { (FIRST_CALL) } }
            p.hint {
                "127.0.0.1:10000 stands for your Envoy. It is listed under "
                a href="/envoys" { "Envoys" } " once it is connected."
            }
        }
    }
}

fn undo_notice(params: &Query, visitor: &Visitor) -> Markup {
    let done = params.all("undo");
    html! {
        @if !done.is_empty() && visitor.who.may_change() {
            form.notice.flash method="post" action="/bulk/undo" role="status" {
                (key(visitor))
                @for id in &done { input type="hidden" name="agent_id" value=(id); }
                span { (done.len()) @if done.len() == 1 { " agent was" } @else { " agents were" } " deactivated." }
                button type="submit" { "Undo" }
            }
        }
    }
}

/// A note that says where the change was made.
pub(super) fn note(reason: &str) -> Result<Note> {
    let mut body = Map::new();
    body.insert("reason".to_owned(), json!(reason));
    Ok(Note::parse(&body)?)
}

pub(super) async fn deactivate(State(dashboard): State<Dashboard>, form: Form) -> Result<Response> {
    let note = note("stopped together with others")?;
    let mut done = Vec::new();
    for id in form.fields.all("agent_id").into_iter().take(MAX_BULK) {
        // One that was deleted meanwhile is off already.
        let Ok(before) = dashboard.service.agent(&id).await else { continue };
        if before.policy.active {
            dashboard.service.deactivate(&id, &note, &form.visitor.caller()).await?;
            done.push(id);
        }
    }
    let undo: Vec<_> = done.iter().map(|id| ("undo", id.as_str())).collect();
    Ok(Redirect::to(&format!("/{}", query(&undo))).into_response())
}

pub(super) async fn undo(State(dashboard): State<Dashboard>, form: Form) -> Result<Redirect> {
    let note = note("undone")?;
    for id in form.fields.all("agent_id").into_iter().take(MAX_BULK) {
        // What the kill switch stopped meanwhile is not for this button to undo.
        let Ok(now) = dashboard.service.agent(&id).await else { continue };
        if now.policy.deactivated_by == Some(DeactivatedBy::Manual) {
            dashboard.service.activate(&id, &note, &form.visitor.caller()).await?;
        }
    }
    Ok(Redirect::to("/"))
}
