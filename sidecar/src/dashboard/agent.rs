//! The page of one agent: why it is inactive, its stopped conversations, its kill switch, its scores and its events.

use agent_kill_switch::wire::{AgentPolicy, DeactivatedBy};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::json;

use super::agents::note;
use super::banner::{banner, matches};
use super::error::Result;
use super::form::Form;
use super::kill_switch::{AgentFeedback, card};
use super::layout::{Page, form_key};
use super::query::{Fields, agent_path, object, query};
use super::show::{ago_or, badge};
use super::timeline::timeline;
use super::visitor::Visitor;
use super::{Dashboard, events, fleet, sessions, show, tools};
use crate::api::problem::status;
use crate::model::{Event, EventType};
use crate::service::{Change, Error, Names};
use crate::store::{EventQuery, EventRange};

/// How many scores the timeline shows.
const SCORES: u32 = 120;
/// How many events the page lists.
const EVENTS: u32 = 20;
/// How many stopped conversations the page lists.
const STOPS: u32 = 100;
/// How many kills are marked in the timeline.
const KILLS: u32 = 10;

pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(agent_id): Path<String>,
    params: Fields,
) -> Result<Markup> {
    let feedback = AgentFeedback { did: params.text("did").to_owned(), ..AgentFeedback::default() };
    render(&dashboard, &visitor, &agent_id, &feedback).await
}

async fn render(dashboard: &Dashboard, visitor: &Visitor, agent_id: &str, feedback: &AgentFeedback) -> Result<Markup> {
    let service = &dashboard.service;
    let agent = service.agent(agent_id).await?;
    let scores = service.scores(agent_id, 0, SCORES).await?;
    let kills = latest(dashboard, agent_id, Some(EventType::KillSwitch), KILLS).await?;
    let deactivation = match agent.policy.deactivated_by {
        Some(DeactivatedBy::KillSwitch) => kills.iter().find(|kill| !is_about_session(kill)).cloned(),
        _ => latest(dashboard, agent_id, Some(EventType::Deactivated), 1).await?.pop(),
    };
    let fleet = service.fleet_view(agent_id);
    let stops = service.stopped_sessions(agent_id, None, STOPS).await?;
    let recent = latest(dashboard, agent_id, None, EVENTS).await?;
    let (oldest, now_ms) = (scores.first().map_or(0, |sample| sample.at_ms), service.now());
    let kills_shown = kills.iter().filter(|kill| kill.body.at_ms >= oldest);
    let marks: Vec<_> = kills_shown
        .map(|kill| (kill.body.at_ms, if is_about_session(kill) { "conversation stopped" } else { "killed" }))
        .collect();
    let title = if agent.name.is_empty() { agent.id() } else { &agent.name };
    Ok(Page { title, here: "/", visitor }.with(html! {
        (flash(&feedback.did, &agent.policy, visitor))
        div #state data-live data-page=(agent_path(agent_id)) {
            div.head {
                div {
                    p.crumb { a href="/" { "Agents" } " /" }
                    h1 { bdi { (title) } }
                    p.meta {
                        span.id { bdi { (agent.id()) } } " " (badge(&agent))
                        " last seen " (ago_or(agent.last_seen_ms, now_ms, "never"))
                        @if let Some(source) = show::policy_file(&agent) { " · " (source) }
                    }
                }
                @if agent.policy.active && visitor.who.may_change() {
                    form method="post" action={ (agent_path(agent_id)) "/deactivate" } {
                        (form_key(visitor)) button.danger type="submit" { "Deactivate" }
                    }
                }
            }
            @if !agent.policy.active { (banner(&agent, deactivation.as_ref(), visitor, now_ms)) }
        }
        div #sessions data-live { @if !stops.is_empty() { (sessions::card(&stops, visitor, now_ms)) } }
        div.columns {
            div {
                section.card aria-labelledby="scores" {
                    h2 #scores { "Scores" }
                    div #timeline data-live {
                        @if scores.is_empty() && marks.is_empty() {
                            p.faint { "There are no scores yet. Calls are scored while the kill switch is on." }
                        } @else { (timeline(&scores, agent.policy.kill_switch_threshold, &marks)) }
                    }
                }
                div #fleet data-live { (fleet::card(&fleet, now_ms)) }
                div #matching data-live {
                    @if let Some(kill) = kills.iter().find(|kill| kill.body.detail.contains_key("matches")) {
                        (matches(kill, &agent, visitor))
                    }
                }
                section.card aria-labelledby="recent" {
                    h2 #recent { "Events" }
                    div #events data-live { (events::table(&recent, now_ms, events::Agents::Hidden)) }
                    p.pager { a href={ "/events" (query(&[("agent_id", agent_id)])) } { "All events of this agent" } }
                }
            }
            (card(&agent, feedback, visitor))
        }
    }))
}

/// Whether a kill stopped one conversation, and not the agent.
fn is_about_session(kill: &Event) -> bool {
    kill.body.detail.get("scope").is_some_and(|scope| scope == "session")
}

async fn latest(
    dashboard: &Dashboard,
    agent_id: &str,
    event_type: Option<EventType>,
    limit: u32,
) -> Result<Vec<Event>> {
    let range = EventRange::Before(None);
    let query =
        EventQuery { range, agent_id: Some(agent_id.to_owned()), event_type, since_ms: None, until_ms: None, limit };
    Ok(dashboard.service.events(&query).await?)
}

/// Says what was just done, and offers to undo a deactivation.
fn flash(did: &str, policy: &AgentPolicy, visitor: &Visitor) -> Markup {
    let message = match did {
        "saved" => "Settings saved.",
        "ignored" => "The tool is ignored. An agent that was stopped must still be activated.",
        "on" => "The kill switch is on.",
        "off" => "The kill switch is off.",
        "activated" => "Activated. Its window was cleared.",
        "resumed" => "The conversation goes on.",
        "deactivated" if policy.deactivated_by == Some(DeactivatedBy::Manual) => "Deactivated.",
        _ => return html! {},
    };
    html! {
        form.notice.flash method="post" action={ (agent_path(&policy.agent_id)) "/activate" } role="status" {
            span { (message) }
            @if did == "deactivated" {
                (form_key(visitor))
                input type="hidden" name="reason" value="undone";
                button type="submit" { "Undo" }
            }
        }
    }
}

/// Shows the agent's page when somebody reloads the address of one of its forms.
pub(super) async fn reloaded(_: Visitor, Path(id): Path<String>) -> Redirect {
    Redirect::to(&agent_path(&id))
}

pub(super) fn back(agent_id: &str, did: &str) -> Response {
    Redirect::to(&format!("{}?did={did}", agent_path(agent_id))).into_response()
}

pub(super) async fn toggle(State(dashboard): State<Dashboard>, Path(id): Path<String>, form: Form) -> Result<Response> {
    let enabled = form.fields.is_on("enabled");
    let was = dashboard.service.agent(&id).await?.policy.kill_switch_enabled;
    let has_alert = dashboard.service.is_alert_configured(&id).await?;
    if enabled && !was && !has_alert && !form.fields.is_on("confirm") {
        let feedback = AgentFeedback { asks_for_alert: true, ..AgentFeedback::default() };
        return Ok(render(&dashboard, &form.visitor, &id, &feedback).await?.into_response());
    }
    let change = Change::parse(&object([("enabled", json!(enabled))]), Names::KillSwitch)?;
    dashboard.service.patch_agent(&id, &change, &form.visitor.caller()).await?;
    Ok(back(&id, if enabled { "on" } else { "off" }))
}

/// Reads the settings form.
fn settings(fields: &Fields) -> std::result::Result<Change, Error> {
    let settings = [
        "window_size",
        "threshold",
        "action",
        "counting",
        "retry_after_seconds",
        "scope",
        "session_stop_seconds",
        "escalate_after",
        "idle_reset_seconds",
        "answer_loop",
    ];
    let mut body = object(settings.map(|name| (name, fields.value(name))));
    body.insert("tools".to_owned(), tools::value(fields));
    Change::parse(&body, Names::KillSwitch)
}

pub(super) async fn save(State(dashboard): State<Dashboard>, Path(id): Path<String>, form: Form) -> Result<Response> {
    let saved = match settings(&form.fields) {
        Ok(change) => dashboard.service.patch_agent(&id, &change, &form.visitor.caller()).await,
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(back(&id, "saved")),
        Err(error) => refused(&dashboard, &id, form, error).await,
    }
}

async fn refused(dashboard: &Dashboard, agent_id: &str, form: Form, error: Error) -> Result<Response> {
    let status = status(&error);
    let Error::Invalid { field, detail } = error else { return Err(error.into()) };
    let feedback =
        AgentFeedback { typed: Some(form.fields), refused: Some((field, detail)), ..AgentFeedback::default() };
    Ok((status, render(dashboard, &form.visitor, agent_id, &feedback).await?).into_response())
}

pub(super) async fn preview(
    State(dashboard): State<Dashboard>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response> {
    let previewed = match settings(&form.fields) {
        Ok(change) => dashboard.service.preview(&id, &change).await,
        Err(error) => Err(error),
    };
    match previewed {
        Ok(preview) => {
            let feedback =
                AgentFeedback { typed: Some(form.fields), preview: Some(preview), ..AgentFeedback::default() };
            Ok(render(&dashboard, &form.visitor, &id, &feedback).await?.into_response())
        }
        Err(error) => refused(&dashboard, &id, form, error).await,
    }
}

pub(super) async fn activate(
    State(dashboard): State<Dashboard>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response> {
    dashboard.service.activate(&id, &note(form.fields.text("reason"))?, &form.visitor.caller()).await?;
    Ok(back(&id, "activated"))
}

pub(super) async fn deactivate(
    State(dashboard): State<Dashboard>,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response> {
    dashboard.service.deactivate(&id, &note(form.fields.text("reason"))?, &form.visitor.caller()).await?;
    Ok(back(&id, "deactivated"))
}
