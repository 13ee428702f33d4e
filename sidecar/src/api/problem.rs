//! Refusals as problem details (RFC 9457): what is wrong, with which field, and what would be right.
//!
//! Nothing of the database or the machine leaks: what only the operator can mend goes to the log, and the client is
//! told when to try again.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::service::Error;

/// A refusal.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    /// What kind, in two words; the same for every refusal of its status.
    title: &'static str,
    status: u16,
    /// What exactly, for a person.
    detail: String,
    /// The field to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

pub(super) type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            retry_after_s: None,
        }
    }

    pub(super) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Invalid { field, .. } => Self::invalid(field, detail),
            Error::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, detail),
            Error::Precondition { .. } => Self::new(StatusCode::PRECONDITION_FAILED, detail),
            Error::Conflict { field, .. } => {
                Self { field: Some(field.to_owned()), ..Self::new(StatusCode::CONFLICT, detail) }
            }
            Error::Store(error) => {
                tracing::error!(%error, transient = error.is_transient(), "the store failed");
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the database did not answer; read again before a change is repeated",
                )
                .retry_after(1)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after_s;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
