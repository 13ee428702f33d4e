//! `/v1/usage` and `/v1/agents/{agent_id}/usage`: the tokens that answers stated, and the calls that were refused, by day.

use agent_kill_switch::wire::ModelUsage;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use super::extract::PathId;
use super::params::Params;
use super::problem::Result;
use crate::model::{UsageDay, date_of};
use crate::service::Prices;

/// How many days can be asked for, and how many are returned if nobody asks.
const MAX_DAYS: u32 = 400;
const DEFAULT_DAYS: u32 = 30;

#[derive(Serialize)]
pub(super) struct UsageView {
    days: Vec<DayView>,
    /// The currency of all costs. `None` if there are no prices.
    currency: Option<String>,
}

#[derive(Serialize)]
struct DayView {
    day: String,
    refused: u64,
    models: Vec<ModelView>,
}

#[derive(Serialize)]
struct ModelView {
    #[serde(flatten)]
    usage: ModelUsage,
    /// `None` if the model has no price.
    cost: Option<f64>,
}

pub(super) async fn of_agent(
    State(app): State<App>,
    PathId(agent_id): PathId,
    params: Params,
) -> Result<Json<UsageView>> {
    let since_day = since_day(&app, params)?;
    app.service.agent(&agent_id).await?;
    Ok(view(&app, app.service.usage_by_day(Some(&agent_id), since_day).await?))
}

pub(super) async fn of_all(State(app): State<App>, params: Params) -> Result<Json<UsageView>> {
    let since_day = since_day(&app, params)?;
    Ok(view(&app, app.service.usage_by_day(None, since_day).await?))
}

fn since_day(app: &App, mut params: Params) -> Result<u64> {
    let expected = format!("a whole number from 1 to {MAX_DAYS}");
    let parse = |value: &str| value.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days));
    let days = params.parsed("days", &expected, parse)?.unwrap_or(DEFAULT_DAYS);
    params.finish()?;
    Ok(app.service.first_of_days(days))
}

fn view(app: &App, days: Vec<UsageDay>) -> Json<UsageView> {
    let prices = app.service.prices();
    let model = |usage: ModelUsage| ModelView { cost: prices.and_then(|prices| prices.cost_of(&usage)), usage };
    let day = |day: UsageDay| DayView {
        day: date_of(day.day),
        refused: day.refused,
        models: day.models.into_iter().map(model).collect(),
    };
    Json(UsageView {
        days: days.into_iter().map(day).collect(),
        currency: prices.map(|Prices { currency, .. }| currency.clone()),
    })
}
