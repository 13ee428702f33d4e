//! The list of agents, with search and filters, and the form that deactivates several of them.

use agent_kill_switch::wire::{DeactivatedBy, ScoreSample};
use axum::extract::State;
use axum::response::Redirect;
use maud::{Markup, html};
use serde_json::json;

use super::error::Result;
use super::form::Form;
use super::layout::{Page, form_key};
use super::query::{Fields, agent_path, object, query};
use super::show::{ago_or, badge, number};
use super::timeline::sparkline;
use super::visitor::Visitor;
use super::{Dashboard, pause};
use crate::api::page::cut;
use crate::model::{Agent, Millis};
use crate::service::Note;
use crate::store::AgentQuery;

/// A request that makes the first agent appear.
const FIRST_CALL: &str = r#"curl http://127.0.0.1:10000/v1/chat/completions \
  -H 'x-agent-id: my-agent' -H 'content-type: application/json' \
  -d '{"model": "any", "messages": [{"role": "user", "content": "hello"}]}'"#;
const PAGE: u32 = 50;
/// How many scores a sparkline shows.
const SPARKLINE_SCORES: u32 = 30;
/// How many agents can be deactivated at once. Their ids have to fit into the address of the page that offers to undo it.
const MAX_BULK: usize = 200;

/// The filters by state: the value in the address, and the label.
const STATES: [(&str, &str); 7] = [
    ("", "All"),
    ("active", "Active"),
    ("guarded", "Guarded"),
    ("observing", "Observing"),
    ("off", "Kill switch off"),
    ("killed", "Deactivated by Kill Switch"),
    ("inactive", "Inactive"),
];

/// Returns the query for the agents in a state. Other words stand for all agents.
fn in_state(state: &str) -> AgentQuery {
    let (active, kill_switch_enabled, observing, deactivated_by) = match state {
        "active" => (Some(true), None, None, None),
        "guarded" => (Some(true), Some(true), Some(false), None),
        "observing" => (Some(true), Some(true), Some(true), None),
        "off" => (Some(true), Some(false), None, None),
        "killed" => (Some(false), None, None, Some(DeactivatedBy::KillSwitch)),
        "inactive" => (Some(false), None, None, Some(DeactivatedBy::Manual)),
        _ => (None, None, None, None),
    };
    AgentQuery { active, kill_switch_enabled, observing, deactivated_by, ..AgentQuery::default() }
}

pub(super) async fn list(State(dashboard): State<Dashboard>, visitor: Visitor, params: Fields) -> Result<Markup> {
    let state = params.text("state");
    let (after, search) = (params.given("after"), params.given("q"));
    let wanted = AgentQuery { after, search, limit: PAGE + 1, ..in_state(state) };
    let (agents, next) = cut(dashboard.service.agents(&wanted).await?, PAGE, |agent| agent.id().to_owned());
    let mut rows = Vec::new();
    for agent in agents {
        let scores = dashboard.service.scores(agent.id(), 0, SPARKLINE_SCORES).await.unwrap_or_default();
        let envoys = dashboard.service.fleet_view(agent.id()).envoys.len();
        rows.push(Row { agent, scores, envoys });
    }
    let is_filtered = wanted.search.is_some() || !state.is_empty() || wanted.after.is_some();
    let page = Page { title: "Agents", here: "/agents", visitor: &visitor };
    Ok(page.with(html! {
        div.head { h1 { "Agents" } (pause::form(&visitor)) }
        (undo_notice(&params, &visitor))
        (filters(&params))
        div #agents data-live {
            @if rows.is_empty() && !is_filtered { (empty()) }
            @else if rows.is_empty() { p.card.empty { "No agent matches. " a href="/agents" { "Show all" } } }
            @else { (table(&rows, &visitor, dashboard.service.now())) }
        }
        @if let Some(next) = next {
            @let after = query(&[("q", params.text("q")), ("state", state), ("after", &next)]);
            p.pager { a href={ "/agents" (after) } { "Next page" } }
        }
    }))
}

fn filters(params: &Fields) -> Markup {
    let (search, state) = (params.text("q"), params.text("state"));
    html! {
        div.toolbar {
            nav.tabs aria-label="State" {
                @for (value, label) in STATES {
                    @let is_here = (value == state).then_some("true");
                    a href={ "/agents" (query(&[("q", search), ("state", value)])) } aria-current=[is_here] { (label) }
                }
            }
            form.inline role="search" method="get" action="/agents" {
                @if !state.is_empty() { input type="hidden" name="state" value=(state); }
                label.sr for="q" { "Search agents" }
                input #q type="search" name="q" value=(search) placeholder="Id or name";
                button type="submit" { "Search" }
            }
        }
    }
}

/// An agent in the list.
struct Row {
    agent: Agent,
    scores: Vec<ScoreSample>,
    /// How many Envoys have reported calls of it lately.
    envoys: usize,
}

fn table(rows: &[Row], visitor: &Visitor, now_ms: Millis) -> Markup {
    let may_change = visitor.who.may_change();
    html! {
        form method="post" action="/bulk/deactivate" {
            (form_key(visitor))
            div.scroll { table.list {
                thead { tr {
                    @if may_change { th.tick { label { span.sr { "Select all" } input type="checkbox" data-all; } } }
                    th scope="col" { "Agent" } th scope="col" { "State" } th scope="col" { "Kill switch" }
                    th scope="col" { "Last score" } th scope="col" { "Envoys" } th scope="col" { "Last seen" }
                } }
                tbody {
                    @for Row { agent, scores, envoys } in rows {
                        tr id={ "row-" (agent.id()) } {
                            @if may_change {
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
                            @if *envoys > 0 { td.numbers data-label="Envoys" { (envoys) } } @else { td {} }
                            td { (ago_or(agent.last_seen_ms, now_ms, "never")) }
                        }
                    }
                }
            } }
            @if may_change {
                div.bulk {
                    button.danger type="submit" { "Deactivate selected" }
                    span.hint { "Deactivates the selected agents at once. You can undo it." }
                }
            }
        }
    }
}

/// Shows a link with the agent's name, and its id below. An agent without a name is shown by its id.
fn name(agent: &Agent) -> Markup {
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
        @if let Some(file) = &agent.managed_by { span.faint { " · file " bdi { (file) } } }
    }
}

/// Shows how to make the first agent appear.
pub(super) fn empty() -> Markup {
    html! {
        section.card.empty {
            h2 { "No agents yet" }
            p { "An agent appears here when it makes its first call through Envoy. To try it, send one:" }
            pre { code { (FIRST_CALL) } }
            p.hint {
                "Replace 127.0.0.1:10000 with the address of your Envoy. It is listed under "
                a href="/envoys" { "Envoys" } " once it is connected."
            }
        }
    }
}

fn undo_notice(params: &Fields, visitor: &Visitor) -> Markup {
    let done: Vec<_> = params.all("undo").collect();
    html! {
        @if !done.is_empty() && visitor.who.may_change() {
            div role="status" {
                form.notice.flash method="post" action="/bulk/undo" {
                    (form_key(visitor))
                    @for id in &done { input type="hidden" name="agent_id" value=(id); }
                    span { (done.len()) @if done.len() == 1 { " agent was" } @else { " agents were" } " deactivated." }
                    button type="submit" { "Undo" }
                }
            }
        }
    }
}

/// Returns a note with this reason.
pub(super) fn note(reason: &str) -> Result<Note> {
    Ok(Note::parse(&object([("reason", json!(reason))]))?)
}

pub(super) async fn deactivate(State(dashboard): State<Dashboard>, form: Form) -> Result<Redirect> {
    let note = note("deactivated together with other agents")?;
    let mut done = Vec::new();
    for id in form.fields.all("agent_id").take(MAX_BULK) {
        // An agent that has been deleted in the meantime is skipped.
        let Ok(before) = dashboard.service.agent(id).await else { continue };
        if before.policy.active {
            dashboard.service.deactivate(id, &note, &form.visitor.caller()).await?;
            done.push(("undo", id));
        }
    }
    Ok(Redirect::to(&format!("/agents{}", query(&done))))
}

pub(super) async fn undo(State(dashboard): State<Dashboard>, form: Form) -> Result<Redirect> {
    let note = note("undone")?;
    for id in form.fields.all("agent_id").take(MAX_BULK) {
        // An agent that the kill switch has deactivated in the meantime stays inactive.
        let Ok(now) = dashboard.service.agent(id).await else { continue };
        if now.policy.deactivated_by == Some(DeactivatedBy::Manual) {
            dashboard.service.activate(id, &note, &form.visitor.caller()).await?;
        }
    }
    Ok(Redirect::to("/agents"))
}

/// Shows the list when somebody reloads the address of one of its forms.
pub(super) async fn reloaded() -> Redirect {
    Redirect::to("/agents")
}
