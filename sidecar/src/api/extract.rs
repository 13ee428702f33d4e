//! What handlers take from a request besides its body.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::problem::{Problem, Result};
use crate::service::{Caller, Identity, Precondition};

/// The agent in the path, percent-decoded. Whether it can be an id at all is for the service to say.
pub(super) struct AgentId(pub String);

impl<S: Send + Sync> FromRequestParts<S> for AgentId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        segment(parts, state, "agent_id").await.map(Self)
    }
}

/// The token in the path.
pub(super) struct TokenId(pub String);

impl<S: Send + Sync> FromRequestParts<S> for TokenId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        segment(parts, state, "token_id").await.map(Self)
    }
}

/// The alert rule in the path.
pub(super) struct RuleId(pub String);

impl<S: Send + Sync> FromRequestParts<S> for RuleId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        segment(parts, state, "rule_id").await.map(Self)
    }
}

async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String> {
    match Path::<String>::from_request_parts(parts, state).await {
        Ok(Path(segment)) => Ok(segment),
        Err(error) => Err(Problem::invalid(name, error.body_text())),
    }
}

/// Who asks for a change and what they believe, out of the token and `If-Match` or `If-None-Match`.
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
        return match listed(value).as_slice() {
            ["*"] => Ok(Precondition::Exists),
            // A tag that is none of ours matches nothing, which is what the caller must hear.
            tags => Ok(Precondition::Revision(tags.iter().filter_map(|tag| revision(tag)).collect())),
        };
    }
    match headers.get(header::IF_NONE_MATCH).map(|value| value.as_bytes()) {
        None => Ok(Precondition::None),
        Some(b"*") => Ok(Precondition::Absent),
        Some(_) => {
            let detail = "a change understands If-None-Match: * only";
            Err(Problem::invalid(header::IF_NONE_MATCH.as_str(), detail))
        }
    }
}

/// The entity tag of a revision.
pub(super) fn etag(rev: u64) -> (HeaderName, HeaderValue) {
    // Digits and quotes are always a header value.
    let value = HeaderValue::try_from(format!("\"{rev}\"")).unwrap_or(HeaderValue::from_static("\"0\""));
    (header::ETAG, value)
}

/// Whether the client already has this revision.
pub(super) fn has_revision(headers: &HeaderMap, rev: u64) -> bool {
    let Some(value) = headers.get(header::IF_NONE_MATCH) else { return false };
    listed(value).iter().any(|tag| *tag == "*" || revision(tag.trim_start_matches("W/")) == Some(rev))
}

fn listed(value: &HeaderValue) -> Vec<&str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim).collect()
}

fn revision(tag: &str) -> Option<u64> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}
