//! `/v1/agents`: list, read, create, set, activate, deactivate, delete.

use agent_kill_switch::wire::{Action, Counting, DeactivatedBy, ScoreSample};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::App;
use super::body::Object;
use super::extract::{AgentId, Asking, etag, has_revision};
use super::params::Params;
use super::problem::Result;
use crate::clock::rfc3339;
use crate::model::Agent;
use crate::service::{Change, Names, Note};
use crate::store::AgentQuery;

/// An agent as the API shows it.
#[derive(Serialize)]
struct AgentView<'a> {
    agent_id: &'a str,
    name: &'a str,
    active: bool,
    deactivated_by: Option<DeactivatedBy>,
    generation: u64,
    kill_switch_enabled: bool,
    kill_switch_window_size: u32,
    kill_switch_threshold: f64,
    action: Action,
    counting: Counting,
    retry_after_seconds: u32,
    first_seen: Option<String>,
    last_seen: Option<String>,
}

impl<'a> From<&'a Agent> for AgentView<'a> {
    fn from(agent: &'a Agent) -> Self {
        let policy = &agent.policy;
        Self {
            agent_id: &policy.agent_id,
            name: &agent.name,
            active: policy.active,
            deactivated_by: policy.deactivated_by,
            generation: policy.generation,
            kill_switch_enabled: policy.kill_switch_enabled,
            kill_switch_window_size: policy.kill_switch_window_size,
            kill_switch_threshold: policy.kill_switch_threshold,
            action: policy.action,
            counting: policy.counting,
            retry_after_seconds: policy.retry_after_seconds,
            first_seen: agent.first_seen_ms.map(rfc3339),
            last_seen: agent.last_seen_ms.map(rfc3339),
        }
    }
}

fn shown(agent: &Agent) -> Response {
    ([etag(agent.rev)], Json(AgentView::from(agent))).into_response()
}

/// A page of agents and where the next one begins.
#[derive(Serialize)]
struct AgentPage<'a> {
    agents: Vec<AgentView<'a>>,
    next_cursor: Option<&'a str>,
}

pub(super) async fn list(State(app): State<App>, mut params: Params) -> Result<Response> {
    let limit = params.limit()?;
    let query = AgentQuery {
        after: params.text("cursor"),
        search: params.text("q"),
        active: params.boolean("active")?,
        deactivated_by: params.parsed("deactivated_by", "kill_switch or manual", |word| word.parse().ok())?,
        kill_switch_enabled: params.boolean("kill_switch_enabled")?,
        // One more than asked for tells whether there is a next page.
        limit: limit + 1,
    };
    params.finish()?;
    let found = app.service.agents(&query).await?;
    let page = found.get(..limit as usize).unwrap_or(&found);
    let has_more = found.len() > page.len();
    let next_cursor = page.last().filter(|_| has_more).map(Agent::id);
    Ok(Json(AgentPage { agents: page.iter().map(AgentView::from).collect(), next_cursor }).into_response())
}

pub(super) async fn get(State(app): State<App>, AgentId(id): AgentId, headers: HeaderMap) -> Result<Response> {
    let agent = app.service.agent(&id).await?;
    if has_revision(&headers, agent.rev) {
        return Ok((StatusCode::NOT_MODIFIED, [etag(agent.rev)]).into_response());
    }
    Ok(shown(&agent))
}

pub(super) async fn put(
    State(app): State<App>,
    AgentId(id): AgentId,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Response> {
    let change = Change::parse(&body, Names::Agent)?;
    let (agent, is_new) = app.service.put_agent(&id, &change, &caller).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, shown(&agent)).into_response())
}

pub(super) async fn patch(
    State(app): State<App>,
    AgentId(id): AgentId,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Response> {
    let change = Change::parse(&body, Names::Agent)?;
    Ok(shown(&app.service.patch_agent(&id, &change, &caller).await?))
}

pub(super) async fn delete(State(app): State<App>, AgentId(id): AgentId, Asking(caller): Asking) -> Result<StatusCode> {
    app.service.delete_agent(&id, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn activate(
    State(app): State<App>,
    AgentId(id): AgentId,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Response> {
    Ok(shown(&app.service.activate(&id, &Note::parse(&body)?, &caller).await?))
}

pub(super) async fn deactivate(
    State(app): State<App>,
    AgentId(id): AgentId,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Response> {
    Ok(shown(&app.service.deactivate(&id, &Note::parse(&body)?, &caller).await?))
}

/// One scored call, with its time as the API writes times.
#[derive(Serialize)]
struct ScoreView {
    at: String,
    score: f64,
    similar_prompts: u32,
    similar_responses: u32,
    repeated_tool_calls: u32,
}

impl From<ScoreSample> for ScoreView {
    fn from(sample: ScoreSample) -> Self {
        Self {
            at: rfc3339(sample.at_ms),
            score: sample.score,
            similar_prompts: sample.signals.similar_prompts,
            similar_responses: sample.signals.similar_responses,
            repeated_tool_calls: sample.signals.repeated_tool_calls,
        }
    }
}

#[derive(Serialize)]
struct Scores {
    agent_id: String,
    /// The line that the scores are measured against now.
    kill_switch_threshold: f64,
    scores: Vec<ScoreView>,
}

pub(super) async fn scores(State(app): State<App>, AgentId(agent_id): AgentId, mut params: Params) -> Result<Response> {
    let limit = params.limit()?;
    let since_ms = params.time("since")?.unwrap_or_default();
    params.finish()?;
    let kill_switch_threshold = app.service.agent(&agent_id).await?.policy.kill_switch_threshold;
    let scores = app.service.scores(&agent_id, since_ms, limit).await?;
    let scores = scores.into_iter().map(ScoreView::from).collect();
    Ok(Json(Scores { agent_id, kill_switch_threshold, scores }).into_response())
}
