//! `/v1/agents`: list, read, create, change, activate, deactivate and delete agents, and read their scores.

use agent_kill_switch::wire::{ScoreSample, Signals};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::App;
use super::extract::{AgentChange, Asking, PathId, etag, has_revision};
use super::page::cut;
use super::params::Params;
use super::problem::Result;
use crate::clock::rfc3339;
use crate::model::Agent;
use crate::service::{Change, Names, Note};
use crate::store::AgentQuery;

fn shown(agent: &Agent) -> Response {
    ([etag(agent.rev)], Json(agent)).into_response()
}

#[derive(Serialize)]
pub(super) struct AgentPage {
    agents: Vec<Agent>,
    next_cursor: Option<String>,
}

pub(super) async fn list(State(app): State<App>, mut params: Params) -> Result<Json<AgentPage>> {
    let limit = params.limit()?;
    let query = AgentQuery {
        after: params.text("cursor"),
        search: params.text("q"),
        active: params.boolean("active")?,
        deactivated_by: params.parsed("deactivated_by", "kill_switch or manual", |word| word.parse().ok())?,
        kill_switch_enabled: params.boolean("kill_switch_enabled")?,
        limit: limit + 1,
    };
    params.finish()?;
    let (agents, next_cursor) = cut(app.service.agents(&query).await?, limit, |agent| agent.id().to_owned());
    Ok(Json(AgentPage { agents, next_cursor }))
}

pub(super) async fn get(State(app): State<App>, PathId(id): PathId, headers: HeaderMap) -> Result<Response> {
    let agent = app.service.agent(&id).await?;
    if has_revision(&headers, agent.rev) {
        return Ok((StatusCode::NOT_MODIFIED, [etag(agent.rev)]).into_response());
    }
    Ok(shown(&agent))
}

pub(super) async fn put(State(app): State<App>, asked: AgentChange) -> Result<Response> {
    let change = Change::parse(&asked.body, Names::Agent)?;
    let (agent, is_new) = app.service.put_agent(&asked.id, &change, &asked.caller).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, shown(&agent)).into_response())
}

pub(super) async fn patch(State(app): State<App>, asked: AgentChange) -> Result<Response> {
    let change = Change::parse(&asked.body, Names::Agent)?;
    Ok(shown(&app.service.patch_agent(&asked.id, &change, &asked.caller).await?))
}

pub(super) async fn delete(State(app): State<App>, PathId(id): PathId, Asking(caller): Asking) -> Result<StatusCode> {
    app.service.delete_agent(&id, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn activate(State(app): State<App>, asked: AgentChange) -> Result<Response> {
    Ok(shown(&app.service.activate(&asked.id, &Note::parse(&asked.body)?, &asked.caller).await?))
}

pub(super) async fn deactivate(State(app): State<App>, asked: AgentChange) -> Result<Response> {
    Ok(shown(&app.service.deactivate(&asked.id, &Note::parse(&asked.body)?, &asked.caller).await?))
}

/// One scored call. Unlike in the filter's reports, its time is written as RFC 3339.
#[derive(Serialize)]
pub(super) struct ScoreView {
    at: String,
    score: f64,
    #[serde(flatten)]
    signals: Signals,
}

impl From<ScoreSample> for ScoreView {
    fn from(ScoreSample { at_ms, score, signals, .. }: ScoreSample) -> Self {
        Self { at: rfc3339(at_ms), score, signals }
    }
}

#[derive(Serialize)]
pub(super) struct Scores {
    agent_id: String,
    /// The threshold in force now. It may have been another one when a score was recorded.
    kill_switch_threshold: f64,
    scores: Vec<ScoreView>,
}

pub(super) async fn scores(
    State(app): State<App>,
    PathId(agent_id): PathId,
    mut params: Params,
) -> Result<Json<Scores>> {
    let limit = params.limit()?;
    let since_ms = params.time("since")?.unwrap_or_default();
    params.finish()?;
    let kill_switch_threshold = app.service.agent(&agent_id).await?.policy.kill_switch_threshold;
    let scores = app.service.scores(&agent_id, since_ms, limit).await?;
    Ok(Json(Scores { agent_id, kill_switch_threshold, scores: scores.into_iter().map(ScoreView::from).collect() }))
}
