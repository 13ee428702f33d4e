//! `/v1/policies`: policy files. `PUT` applies one, and `GET` exports what is in force.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};

use super::App;
use super::body::Document;
use super::extract::{Asking, PathId};
use super::params::Params;
use super::problem::Result;
use crate::service::{Applied, Apply, Note, Policies, PolicyFile};

#[derive(Serialize)]
pub(super) struct Files {
    files: Vec<PolicyFile>,
}

pub(super) async fn list(State(app): State<App>) -> Result<Json<Files>> {
    Ok(Json(Files { files: app.service.policy_files().await? }))
}

pub(super) async fn export(State(app): State<App>, PathId(name): PathId, mut params: Params) -> Result<Json<Value>> {
    let unmanaged = params.boolean("unmanaged")?.unwrap_or_default();
    params.finish()?;
    Ok(Json(app.service.export_policies(&name, unmanaged).await?))
}

pub(super) async fn apply(
    State(app): State<App>,
    PathId(name): PathId,
    mut params: Params,
    Asking(caller): Asking,
    Document(document): Document,
) -> Result<Json<Applied>> {
    let said = ["reason", "by"].map(|member| Some((member.to_owned(), Value::String(params.text(member)?))));
    let how = Apply {
        dry_run: params.boolean("dry_run")?.unwrap_or_default(),
        prune: params.boolean("prune")?.unwrap_or_default(),
        note: Note::parse(&said.into_iter().flatten().collect::<Map<_, _>>())?,
    };
    params.finish()?;
    let policies = Policies::parse(&name, &document)?;
    Ok(Json(app.service.apply_policies(&policies, &how, &caller.who).await?))
}
