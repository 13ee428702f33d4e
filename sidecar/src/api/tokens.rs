//! `/v1/tokens`: create, list and revoke tokens. A token's secret is shown once, when it is created.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use super::App;
use super::body::Object;
use super::extract::{Asking, PathId};
use super::problem::{Problem, Result};
use crate::model::{Scope, Token};
use crate::service::NewToken;

pub(super) async fn list(State(app): State<App>) -> Result<Json<HashMap<&'static str, Vec<Token>>>> {
    Ok(Json(HashMap::from([("tokens", app.service.tokens().await?)])))
}

pub(super) async fn create(
    State(app): State<App>,
    Asking(caller): Asking,
    Object(body): Object,
) -> Result<(StatusCode, Json<NewToken>)> {
    if let Some(field) = body.keys().find(|field| !["name", "scope"].contains(&field.as_str())) {
        return Err(Problem::invalid(field, "only name and scope can be set"));
    }
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    let no_scope = || Problem::invalid("scope", "scope must be enforcer, viewer or operator");
    let scope = Scope::parse(text("scope")).ok_or_else(no_scope)?;
    Ok((StatusCode::CREATED, Json(app.service.create_token(text("name"), scope, &caller.who).await?)))
}

pub(super) async fn revoke(
    State(app): State<App>,
    PathId(token_id): PathId,
    Asking(caller): Asking,
) -> Result<StatusCode> {
    app.service.revoke_token(&token_id, &caller.who).await?;
    Ok(StatusCode::NO_CONTENT)
}
