//! The first page: how the agents are, the loops of the last day and week, the latest kills with a button for each, and
//! whether Envoys and alerts work.

use axum::extract::State;
use maud::{Markup, html};

use super::chart::{Span, chart, legend};
use super::error::Result;
use super::layout::{Page, form_key};
use super::query::{Fields, agent_path};
use super::show::{ago, table};
use super::visitor::Visitor;
use super::{Dashboard, agents, pause, usage};
use crate::alerts::session_name;
use crate::model::{Millis, RemedyKind};
use crate::service::{AgentStates, AlertCounts, EnvoyCounts, LatestKill, Loops, Overview, stopped_session};

pub(super) async fn page(State(dashboard): State<Dashboard>, visitor: Visitor, params: Fields) -> Result<Markup> {
    let service = &dashboard.service;
    let (overview, now_ms) = (service.overview().await?, service.now());
    let since_day = service.first_of_days(usage::DAYS);
    let days = service.usage_by_day(None, since_day).await?;
    let used = usage::Usage { since_day, days: &days, prices: service.prices() };
    Ok(Page { title: "Overview", here: "/", visitor: &visitor }.with(html! {
        div.head { h1 { "Overview" } (pause::form(&visitor)) }
        (flash(&params))
        div #agents data-live { (states(overview.agents, overview.stopped_sessions)) }
        div.columns {
            div {
                section.card aria-labelledby="kills-title" {
                    h2 #kills-title { "Latest kills" }
                    div #kills data-live { (latest(&overview, &visitor, now_ms)) }
                }
                section.card aria-labelledby="loops-title" {
                    h2 #loops-title { "Loops" }
                    div #loops data-live { (loops(&overview.day, &overview.week)) }
                }
                div #usage data-live { (usage::overview_card(&used)) }
            }
            div {
                section.card aria-labelledby="envoys-title" {
                    h2 #envoys-title { "Envoys" }
                    div #envoys data-live { (envoys(overview.envoys)) }
                }
                section.card aria-labelledby="alerts-title" {
                    h2 #alerts-title { "Alerts" }
                    div #alerts data-live { (alerts(overview.alerts, &visitor)) }
                }
            }
        }
    }))
}

/// Says what a button of this page has just done.
fn flash(params: &Fields) -> Markup {
    let message = match params.text("did") {
        "activated" => " was activated. Its window was cleared.",
        "resumed" => " goes on with the conversation that was stopped.",
        _ => return html! {},
    };
    let id = params.text("agent_id");
    html! { p.notice.flash role="status" { span { a href=(agent_path(id)) { bdi { (id) } } (message) } } }
}

/// Shows how many agents are in each state. Each number leads to the list of these agents.
fn states(agents: AgentStates, stopped_sessions: u64) -> Markup {
    if agents.total() == 0 {
        return agents::empty();
    }
    let tiles = [
        ("guarded", "active", "●", "Guarded", agents.guarded, "A loop is stopped."),
        ("observing", "waiting", "◐", "Observing", agents.observing, "A loop is only recorded."),
        ("off", "inactive", "◌", "Kill switch off", agents.switch_off, "Calls are not checked."),
        ("killed", "killed", "■", "Deactivated by Kill Switch", agents.killed, "Every call is refused."),
        ("inactive", "inactive", "○", "Inactive", agents.inactive, "Deactivated by a person."),
    ];
    html! {
        ul.tiles aria-label="Agents by state" {
            @for (state, class, icon, label, count, meaning) in tiles {
                li {
                    a.tile href={ "/agents?state=" (state) } {
                        strong { (count) }
                        span class={ "badge " (class) } { span aria-hidden="true" { (icon) } " " (label) }
                        span.hint { (meaning) }
                    }
                }
            }
        }
        @if stopped_sessions > 0 {
            p.lead {
                strong { (stopped_sessions) }
                @if stopped_sessions == 1 { " conversation is" } @else { " conversations are" }
                " stopped while the agent goes on."
            }
        }
    }
}

fn loops(day: &[Loops], week: &[Loops]) -> Markup {
    html! {
        @if week.iter().chain(day).all(|loops| loops.total() == 0) {
            p.empty.faint { "No loop was found in the last 7 days." }
        } @else {
            div.charts { (chart(Span::Day, day)) (chart(Span::Week, week)) }
            (legend())
        }
    }
}

fn latest(overview: &Overview, visitor: &Visitor, now_ms: Millis) -> Markup {
    let agents = overview.agents;
    if !overview.latest_kills.is_empty() {
        return table("list events", &["When", "Agent", "Why", "Now"], rows(&overview.latest_kills, visitor, now_ms));
    }
    html! {
        p.empty.faint {
            "No agent was killed so far."
            @if agents.total() > 0 && agents.guarded + agents.observing == 0 {
                " No kill switch is on: "
                a href="/agents?state=off" { "choose an agent" } " and switch it on, first with the action “observe”."
            }
        }
    }
}

fn rows(kills: &[LatestKill], visitor: &Visitor, now_ms: Millis) -> Markup {
    html! {
        @for kill in kills {
            @let body = &kill.event.body;
            tr id={ "kill-" (kill.event.id) } {
                td { a href={ "/kills/" (kill.event.id) } { (ago(body.at_ms, now_ms)) } }
                td { a.agent href=(agent_path(&body.agent_id)) { bdi { (name(kill)) } } }
                td.why {
                    bdi { (body.reason) }
                    @if let Some(session) = session_name(&body.detail) {
                        " " span.change { "conversation " bdi { (session) } }
                    }
                }
                td.now { (now(kill, visitor)) }
            }
        }
    }
}

/// Returns the name of the agent, or its id if it has none.
fn name(kill: &LatestKill) -> &str {
    if kill.agent_name.is_empty() { &kill.event.body.agent_id } else { &kill.agent_name }
}

/// Shows whether the agent or the conversation is still stopped, and the button that ends it.
fn now(kill: &LatestKill, visitor: &Visitor) -> Markup {
    let path = agent_path(&kill.event.body.agent_id);
    let (state, button, action) = match (kill.remedy, stopped_session(&kill.event)) {
        (Some(RemedyKind::Activate), _) => ("Inactive", "Activate", format!("{path}/activate")),
        (Some(RemedyKind::Resume), Some(key)) => ("Stopped", "Resume", format!("{path}/sessions/{key}/resume")),
        _ => return html! { span.faint { "Over" } },
    };
    html! {
        span.badge.killed { span aria-hidden="true" { "■" } " " (state) }
        @if visitor.who.may_change() {
            form.inline method="post" action=(action) {
                (form_key(visitor))
                input type="hidden" name="from" value="overview";
                button.primary type="submit" aria-label={ (button) " " (name(kill)) } { (button) }
            }
        }
    }
}

fn envoys(envoys: EnvoyCounts) -> Markup {
    html! {
        @if envoys.connected == 0 {
            p {
                span.badge.waiting { span aria-hidden="true" { "▲" } " None connected" }
            }
            p.hint {
                "Nothing is checked until an Envoy with the filter is connected. The page Getting started of the "
                "documentation (docs/getting-started.md) shows how, and " code { "kill-switch doctor" }
                " checks the connection."
            }
        } @else {
            p { strong.big { (envoys.connected) } " connected" }
            @if envoys.up_to_date < envoys.connected {
                p.over { (envoys.connected - envoys.up_to_date) " without the latest policies" }
            }
        }
        p { a href="/envoys" { "All Envoys" @if envoys.known > 0 { " (" (envoys.known) ")" } } }
    }
}

fn alerts(alerts: AlertCounts, visitor: &Visitor) -> Markup {
    html! {
        @if alerts.rules == 0 {
            p { span.badge.waiting { span aria-hidden="true" { "▲" } " Nobody is told" } }
            p.hint { "No alert rule is switched on, so a kill is only seen on this dashboard." }
            @if visitor.who.may_change() { p { a href="/alerts#new" { "Make a rule" } } }
        } @else {
            p { strong.big { (alerts.rules) } @if alerts.rules == 1 { " rule" } @else { " rules" } }
            @if alerts.failed > 0 {
                p.over { strong { (alerts.failed) } " failed in the last 7 days" }
            } @else {
                p.hint { "None failed in the last 7 days." }
            }
            @if alerts.retrying > 0 { p.hint { (alerts.retrying) " waiting for another attempt" } }
        }
        p { a href="/alerts" { "All alerts" } }
    }
}
