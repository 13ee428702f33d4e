//! `/v1/agents/{agent_id}/kill-switch`: only the kill switch settings of an agent.

use agent_kill_switch::policy::highest_score;
use agent_kill_switch::wire::{Action, AnswerLoop, Counting, Scope, ToolRules};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::App;
use super::extract::{AgentChange, PathId, etag};
use super::problem::Result;
use crate::model::Agent;
use crate::service::{Change, Names};

#[derive(Serialize)]
struct KillSwitchView<'a> {
    kill_switch_enabled: bool,
    kill_switch_window_size: u32,
    kill_switch_threshold: f64,
    action: Action,
    counting: Counting,
    retry_after_seconds: u32,
    idle_reset_seconds: u32,
    scope: Scope,
    session_stop_seconds: u32,
    escalate_after: u32,
    answer_loop: AnswerLoop,
    tools: &'a ToolRules,
    /// The highest score that a window of this size can reach. The threshold must be below it.
    highest_score: f64,
}

fn shown(agent: &Agent) -> Response {
    let policy = &agent.policy;
    let view = KillSwitchView {
        kill_switch_enabled: policy.kill_switch_enabled,
        kill_switch_window_size: policy.kill_switch_window_size,
        kill_switch_threshold: policy.kill_switch_threshold,
        action: policy.action,
        counting: policy.counting,
        retry_after_seconds: policy.retry_after_seconds,
        idle_reset_seconds: policy.idle_reset_seconds,
        scope: policy.scope,
        session_stop_seconds: policy.session_stop_seconds,
        escalate_after: policy.escalate_after,
        answer_loop: policy.answer_loop,
        tools: &policy.tools,
        highest_score: highest_score(policy.kill_switch_window_size),
    };
    ([etag(agent.rev)], Json(view)).into_response()
}

pub(super) async fn get(State(app): State<App>, PathId(id): PathId) -> Result<Response> {
    Ok(shown(&app.service.agent(&id).await?))
}

pub(super) async fn patch(State(app): State<App>, asked: AgentChange) -> Result<Response> {
    let change = Change::parse(&asked.body, Names::KillSwitch)?;
    Ok(shown(&app.service.patch_agent(&asked.id, &change, &asked.caller).await?))
}
