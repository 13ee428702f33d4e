//! `/v1/tokens`: create, list and revoke tokens. A token's secret is shown once, when it is created.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::App;
use super::body::Object;
use super::extract::PathId;
use super::problem::{Problem, Result};
use crate::clock::rfc3339;
use crate::model::{Scope, Token};

#[derive(Serialize)]
struct TokenView {
    token_id: String,
    name: String,
    scope: Scope,
    created: String,
    revoked: Option<String>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            token_id: token.token_id,
            name: token.name,
            scope: token.scope,
            created: rfc3339(token.created_ms),
            revoked: token.revoked_ms.map(rfc3339),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Tokens {
    tokens: Vec<TokenView>,
}

pub(super) async fn list(State(app): State<App>) -> Result<Json<Tokens>> {
    let tokens = app.service.tokens().await?;
    Ok(Json(Tokens { tokens: tokens.into_iter().map(TokenView::from).collect() }))
}

#[derive(Serialize)]
pub(super) struct Created {
    #[serde(flatten)]
    token: TokenView,
    /// Shown only in this answer.
    secret: String,
}

pub(super) async fn create(State(app): State<App>, Object(body): Object) -> Result<(StatusCode, Json<Created>)> {
    if let Some(field) = body.keys().find(|field| !["name", "scope"].contains(&field.as_str())) {
        return Err(Problem::invalid(field, "only name and scope can be set"));
    }
    let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    let no_scope = || Problem::invalid("scope", "scope must be enforcer, viewer or operator");
    let scope = Scope::parse(text("scope")).ok_or_else(no_scope)?;
    let made = app.service.create_token(text("name"), scope).await?;
    Ok((StatusCode::CREATED, Json(Created { token: made.token.into(), secret: made.secret })))
}

pub(super) async fn revoke(State(app): State<App>, PathId(token_id): PathId) -> Result<StatusCode> {
    app.service.revoke_token(&token_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
