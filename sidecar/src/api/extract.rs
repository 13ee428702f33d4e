//! What handlers take from a request besides its body: the id in the path, the caller, and conditional headers.

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::body::Object;
use super::problem::{Problem, Result};
use crate::service::{Caller, Identity, Precondition};

/// The id in the path, percent-decoded, or several ids as a tuple. The service checks whether they are valid.
pub(super) struct PathId<T = String>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let refused = |error: PathRejection| {
            // With nothing but texts in the path, the only thing that can go wrong is that one is not UTF-8.
            let field = if let PathRejection::FailedToDeserializePathParams(error) = &error
                && let ErrorKind::InvalidUtf8InPathParam { key } = error.kind()
            {
                key.as_str()
            } else {
                "path"
            };
            Problem::invalid(field, error.body_text())
        };
        Path::from_request_parts(parts, state).await.map(|Path(id)| Self(id)).map_err(refused)
    }
}

/// A change to the agent in the path: who asks for it, and what it is.
pub(super) struct AgentChange {
    pub id: String,
    pub caller: Caller,
    pub body: Map<String, Value>,
}

impl<S: Send + Sync> FromRequest<S> for AgentChange {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> std::result::Result<Self, Response> {
        let (PathId(id), Asking(caller), Object(body)) =
            <(PathId, Asking, Object)>::from_request(request, state).await?;
        Ok(Self { id, caller, body })
    }
}

/// Who asks for a change, and under which condition: read from the token and from `If-Match` or `If-None-Match`.
pub(super) struct Asking(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let unknown = || Problem::new(StatusCode::UNAUTHORIZED, "a bearer token is needed");
        let who = parts.extensions.get::<Identity>().cloned().ok_or_else(unknown)?;
        Ok(Self(Caller { who, precondition: precondition(&parts.headers)? }))
    }
}

fn precondition(headers: &HeaderMap) -> Result<Precondition> {
    if let Some(value) = headers.get(header::IF_MATCH) {
        return match entity_tags(value).as_slice() {
            ["*"] => Ok(Precondition::Exists),
            // A tag that is not a revision matches no agent, so the change is refused with 412.
            tags => Ok(Precondition::Revision(tags.iter().filter_map(|tag| revision(tag)).collect())),
        };
    }
    match headers.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        None => Ok(Precondition::None),
        Some(b"*") => Ok(Precondition::Absent),
        Some(_) => {
            let detail = "a change can only be made with If-None-Match: *, not with an entity tag";
            Err(Problem::invalid(header::IF_NONE_MATCH.as_str(), detail))
        }
    }
}

/// The `ETag` header of a revision.
pub(super) fn etag(rev: u64) -> (HeaderName, String) {
    (header::ETAG, format!("\"{rev}\""))
}

/// Returns whether `If-None-Match` says that the client already has this revision.
pub(super) fn has_revision(headers: &HeaderMap, rev: u64) -> bool {
    let Some(value) = headers.get(header::IF_NONE_MATCH) else { return false };
    entity_tags(value).iter().any(|tag| *tag == "*" || revision(tag.trim_start_matches("W/")) == Some(rev))
}

fn entity_tags(value: &HeaderValue) -> Vec<&str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim).collect()
}

fn revision(tag: &str) -> Option<u64> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}
