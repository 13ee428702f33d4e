//! `/v1/alerts`: alert rules, test notices, and the history of deliveries. A webhook's secret is shown once.

use agent_kill_switch::wire::Scope;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use super::App;
use super::body::Object;
use super::extract::{Asking, PathId};
use super::page::cut;
use super::params::Params;
use super::problem::Result;
use crate::alerts::masked;
use crate::clock::rfc3339;
use crate::model::{AlertRule, Channel, Delivery, DeliveryStatus, NoticeKind};
use crate::service::RuleChange;
use crate::store::DeliveryQuery;

/// An alert rule as the API shows it: without its secret, and with secret parts of its target masked.
#[derive(Serialize)]
pub(super) struct RuleView {
    rule_id: String,
    r#type: &'static str,
    name: String,
    agent_id: Option<String>,
    channel: Channel,
    target: String,
    cooldown_seconds: u32,
    recovery: bool,
    enabled: bool,
    disabled_reason: String,
    created: String,
}

impl From<AlertRule> for RuleView {
    fn from(rule: AlertRule) -> Self {
        Self {
            target: masked(rule.channel, &rule.target),
            rule_id: rule.rule_id,
            r#type: "kill_switch",
            name: rule.name,
            agent_id: rule.agent_id,
            channel: rule.channel,
            cooldown_seconds: rule.cooldown_seconds,
            recovery: rule.recovery,
            enabled: rule.enabled,
            disabled_reason: rule.disabled_reason,
            created: rfc3339(rule.created_ms),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Rules {
    rules: Vec<RuleView>,
}

pub(super) async fn list(State(app): State<App>) -> Result<Json<Rules>> {
    let rules = app.service.alert_rules().await?;
    Ok(Json(Rules { rules: rules.into_iter().map(RuleView::from).collect() }))
}

pub(super) async fn get(State(app): State<App>, PathId(rule_id): PathId) -> Result<Json<RuleView>> {
    Ok(Json(app.service.alert_rule(&rule_id).await?.into()))
}

/// A new rule, and the secret with which its receiver verifies signatures.
#[derive(Serialize)]
pub(super) struct Created {
    #[serde(flatten)]
    rule: RuleView,
    /// Shown only in this answer. Null for channels that are not signed.
    secret: Option<String>,
}

pub(super) async fn create(
    State(app): State<App>,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<(StatusCode, Json<Created>)> {
    let made = app.alerts.create_rule(RuleChange::parse(&body)?, &caller.who).await?;
    Ok((StatusCode::CREATED, Json(Created { rule: made.rule.into(), secret: made.secret })))
}

pub(super) async fn patch(
    State(app): State<App>,
    PathId(rule_id): PathId,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<Json<RuleView>> {
    Ok(Json(app.alerts.change_rule(&rule_id, RuleChange::parse(&body)?, &caller.who).await?.into()))
}

pub(super) async fn delete(
    State(app): State<App>,
    PathId(rule_id): PathId,
    Asking(caller): Asking,
) -> Result<StatusCode> {
    app.service.delete_alert_rule(&rule_id, &caller.who).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn test(State(app): State<App>, PathId(rule_id): PathId) -> Result<Json<DeliveryView>> {
    Ok(Json(app.alerts.test(&rule_id).await?.into()))
}

/// A delivery as the API shows it.
#[derive(Serialize)]
pub(super) struct DeliveryView {
    delivery_id: String,
    rule_id: String,
    channel: Channel,
    kind: NoticeKind,
    scope: Scope,
    agent_id: String,
    event_id: Option<u64>,
    status: DeliveryStatus,
    attempts: u32,
    created: String,
    last_attempt: Option<String>,
    next_attempt: Option<String>,
    last_code: Option<u32>,
    last_latency_ms: Option<u64>,
    last_error: String,
}

impl From<Delivery> for DeliveryView {
    fn from(delivery: Delivery) -> Self {
        let is_pending = delivery.status == DeliveryStatus::Pending;
        Self {
            delivery_id: delivery.delivery_id,
            rule_id: delivery.rule_id,
            channel: delivery.channel,
            kind: delivery.kind,
            scope: delivery.scope,
            agent_id: delivery.agent_id,
            event_id: delivery.event_id,
            status: delivery.status,
            attempts: delivery.attempts,
            created: rfc3339(delivery.created_ms),
            last_attempt: delivery.last_attempt_ms.map(rfc3339),
            next_attempt: is_pending.then(|| rfc3339(delivery.next_attempt_ms)),
            last_code: delivery.last_code,
            last_latency_ms: delivery.last_latency_ms,
            last_error: delivery.last_error,
        }
    }
}

#[derive(Serialize)]
pub(super) struct History {
    deliveries: Vec<DeliveryView>,
    next_cursor: Option<String>,
}

pub(super) async fn history(State(app): State<App>, mut params: Params) -> Result<Json<History>> {
    let limit = params.limit()?;
    let words = "pending, delivered, given_up or held_back";
    let query = DeliveryQuery {
        before: params.number("cursor")?,
        rule_id: params.text("rule_id"),
        agent_id: params.text("agent_id"),
        status: params.parsed("status", words, DeliveryStatus::parse)?,
        limit: limit + 1,
    };
    params.finish()?;
    let found = app.service.deliveries(&query).await?;
    let (deliveries, next_cursor) = cut(found, limit, |delivery| delivery.seq.to_string());
    Ok(Json(History { deliveries: deliveries.into_iter().map(DeliveryView::from).collect(), next_cursor }))
}
