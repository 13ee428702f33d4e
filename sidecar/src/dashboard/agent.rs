//! One agent: why it is off, its kill switch, its scores, its events.

use agent_kill_switch::wire::DeactivatedBy;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::agents::note;
use super::banner::{banner, matches};
use super::error::{Result, status};
use super::form::{Fields, Form};
use super::kill_switch::{Draft, Said, card};
use super::layout::{Page, key};
use super::query::{Query, agent_path, query};
use super::show::{ago_or, badge};
use super::timeline::timeline;
use super::visitor::Visitor;
use super::{Dashboard, events};
use crate::model::{Event, EventType};
use crate::service::{Change, Error, Names};
use crate::store::{EventQuery, EventRange};

/// Scores in the timeline.
const SCORES: u32 = 120;
const EVENTS: u32 = 20;

pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(agent_id): Path<String>,
    params: Query,
) -> Result<Markup> {
    render(&dashboard, &visitor, &agent_id, Shown { did: params.text("did").to_owned(), ..Shown::default() }).await
}

/// What a page shows beyond the agent itself.
#[derive(Default)]
struct Shown {
    draft: Option<Draft>,
    said: Said,
    /// What was just done: a word of ours, not a text.
    did: String,
}

async fn render(dashboard: &Dashboard, visitor: &Visitor, agent_id: &str, shown: Shown) -> Result<Markup> {
    let service = &dashboard.service;
    let agent = service.agent(agent_id).await?;
    let scores = service.scores(agent_id, 0, SCORES).await?;
    let kills = latest(dashboard, agent_id, Some(EventType::KillSwitch), 10).await?;
    let stopped = match agent.policy.deactivated_by {
        Some(DeactivatedBy::KillSwitch) => kills.first().cloned(),
        _ => latest(dashboard, agent_id, Some(EventType::Deactivated), 1).await?.pop(),
    };
    let recent = latest(dashboard, agent_id, None, EVENTS).await?;
    let (oldest, now_ms) = (scores.first().map_or(0, |sample| sample.at_ms), service.now());
    let marks: Vec<_> = kills.iter().map(|kill| kill.body.at_ms).filter(|at_ms| *at_ms >= oldest).collect();
    let title = if agent.name.is_empty() { agent.id() } else { &agent.name };
    let draft = shown.draft.unwrap_or_else(|| Draft::saved(&agent));
    Ok(Page { title, here: "/", visitor }.with(html! {
        (done(&shown.did, &agent.policy, agent_id, visitor))
        div #state data-live data-page=(agent_path(agent_id)) {
            div.head {
                div {
                    p.crumb { a href="/" { "Agents" } " /" }
                    h1 { bdi { (title) } }
                    p.meta {
                        span.id { bdi { (agent.id()) } } " " (badge(&agent))
                        " last seen " (ago_or(agent.last_seen_ms, now_ms, "never"))
                    }
                }
                @if agent.policy.active && visitor.who.may_change() {
                    form method="post" action={ (agent_path(agent_id)) "/deactivate" } {
                        (key(visitor)) button.danger type="submit" { "Deactivate" }
                    }
                }
            }
            @if !agent.policy.active { (banner(&agent, stopped.as_ref(), visitor, now_ms)) }
        }
        div.columns {
            div {
                section.card aria-labelledby="scores" {
                    h2 #scores { "Scores" }
                    div #timeline data-live {
                        @if scores.is_empty() && marks.is_empty() {
                            p.faint { "No scores yet. They arrive with the agent's calls while its kill switch is on." }
                        } @else { (timeline(&scores, agent.policy.kill_switch_threshold, &marks)) }
                    }
                }
                div #matching data-live { @if let Some(kill) = kills.first() { (matches(kill)) } }
                section.card aria-labelledby="recent" {
                    h2 #recent { "Events" }
                    div #events data-live { (events::table(&recent, now_ms, false)) }
                    p.pager { a href={ "/events" (query(&[("agent_id", agent_id)])) } { "All events of this agent" } }
                }
            }
            (card(&agent, &draft, &shown.said, visitor))
        }
    }))
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

/// Says what was done, and offers to take a deactivation back.
fn done(did: &str, policy: &agent_kill_switch::wire::AgentPolicy, agent_id: &str, visitor: &Visitor) -> Markup {
    let words = match did {
        "saved" => "Settings saved.",
        "on" => "The kill switch is on.",
        "off" => "The kill switch is off.",
        "activated" => "Activated. Its window was cleared.",
        "deactivated" if policy.deactivated_by == Some(DeactivatedBy::Manual) => "Deactivated.",
        _ => return html! {},
    };
    html! {
        form.notice.flash method="post" action={ (agent_path(agent_id)) "/activate" } role="status" {
            span { (words) }
            @if did == "deactivated" {
                (key(visitor))
                input type="hidden" name="reason" value="undone";
                button type="submit" { "Undo" }
            }
        }
    }
}

/// A form's address, reloaded: the agent's own page.
pub(super) async fn reloaded(_: Visitor, Path(agent_id): Path<String>) -> Redirect {
    Redirect::to(&agent_path(&agent_id))
}

fn back(agent_id: &str, did: &str) -> Response {
    Redirect::to(&format!("{}?did={did}", agent_path(agent_id))).into_response()
}

pub(super) async fn toggle(
    State(dashboard): State<Dashboard>,
    Path(agent_id): Path<String>,
    form: Form,
) -> Result<Response> {
    let enabled = form.fields.is_on("enabled");
    let was = dashboard.service.agent(&agent_id).await?.policy.kill_switch_enabled;
    let is_heard = dashboard.service.is_alert_configured(&agent_id).await?;
    if enabled && !was && !is_heard && !form.fields.is_on("confirm") {
        let said = Said { asks_for_alert: true, ..Said::default() };
        let page = render(&dashboard, &form.visitor, &agent_id, Shown { said, ..Shown::default() }).await?;
        return Ok(page.into_response());
    }
    let mut body = Map::new();
    body.insert("enabled".to_owned(), json!(enabled));
    let change = Change::parse(&body, Names::KillSwitch)?;
    dashboard.service.patch_agent(&agent_id, &change, &form.visitor.caller()).await?;
    Ok(back(&agent_id, if enabled { "on" } else { "off" }))
}

pub(super) async fn save(
    State(dashboard): State<Dashboard>,
    Path(agent_id): Path<String>,
    form: Form,
) -> Result<Response> {
    let change = Change::parse(&settings(&form.fields), Names::KillSwitch);
    let saved = match change {
        Ok(change) => dashboard.service.patch_agent(&agent_id, &change, &form.visitor.caller()).await,
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(back(&agent_id, "saved")),
        Err(error) => refused(&dashboard, &agent_id, form, error).await,
    }
}

async fn refused(dashboard: &Dashboard, agent_id: &str, form: Form, error: Error) -> Result<Response> {
    let status: StatusCode = status(&error);
    let Error::Invalid { field, detail } = error else { return Err(error.into()) };
    let said = Said { refused: Some((field, detail)), ..Said::default() };
    let shown = Shown { draft: Some(Draft::typed(&form.fields)), said, did: String::new() };
    Ok((status, render(dashboard, &form.visitor, agent_id, shown).await?).into_response())
}

/// A form's numbers are text; what cannot be read as one is left to the service to refuse by name.
fn settings(fields: &Fields) -> Map<String, Value> {
    let number =
        |name: &str| fields.text(name).parse::<f64>().map_or_else(|_| json!(fields.text(name)), |number| json!(number));
    let mut body = Map::new();
    for name in ["window_size", "threshold", "retry_after_seconds"] {
        body.insert(name.to_owned(), number(name));
    }
    for name in ["action", "counting"] {
        body.insert(name.to_owned(), json!(fields.text(name)));
    }
    body
}

pub(super) async fn preview(
    State(dashboard): State<Dashboard>,
    Path(agent_id): Path<String>,
    form: Form,
) -> Result<Response> {
    let number = |name: &str| form.fields.text(name).parse().unwrap_or(f64::NAN);
    match dashboard.service.preview(&agent_id, number("window_size"), number("threshold")).await {
        Ok(preview) => {
            let said = Said { preview: Some(preview), ..Said::default() };
            let shown = Shown { draft: Some(Draft::typed(&form.fields)), said, did: String::new() };
            Ok(render(&dashboard, &form.visitor, &agent_id, shown).await?.into_response())
        }
        Err(error) => refused(&dashboard, &agent_id, form, error).await,
    }
}

pub(super) async fn activate(
    State(dashboard): State<Dashboard>,
    Path(agent_id): Path<String>,
    form: Form,
) -> Result<Response> {
    let note = note(form.fields.text("reason"))?;
    dashboard.service.activate(&agent_id, &note, &form.visitor.caller()).await?;
    Ok(back(&agent_id, "activated"))
}

pub(super) async fn deactivate(
    State(dashboard): State<Dashboard>,
    Path(agent_id): Path<String>,
    form: Form,
) -> Result<Response> {
    let note = note(form.fields.text("reason"))?;
    dashboard.service.deactivate(&agent_id, &note, &form.visitor.caller()).await?;
    Ok(back(&agent_id, "deactivated"))
}
