//! Errors as problem details (RFC 9457): what is wrong, with which field, and what would be right.
//!
//! Errors of the database are logged, not shown: the client only learns whether and when to try again.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;

use crate::service::Error;
use crate::store::StoreError;

/// An error answer.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    /// The name of the status.
    title: &'static str,
    status: u16,
    /// What exactly is wrong, for a person.
    detail: String,
    /// The field to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

/// What is wrong, as an extension of the response. The dashboard shows it to a browser as a page.
#[derive(Clone)]
pub(crate) struct Detail(pub String);

pub(super) type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
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

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

/// Returns the HTTP status for an error of the service, in the API and in the dashboard.
pub(crate) fn status(error: &Error) -> StatusCode {
    match error {
        Error::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Error::NotFound { .. } => StatusCode::NOT_FOUND,
        Error::Precondition { .. } => StatusCode::PRECONDITION_FAILED,
        Error::Conflict { .. } => StatusCode::CONFLICT,
        // Trying again cannot help, because what cannot be read is still there.
        Error::Store(StoreError::Corrupt { .. } | StoreError::Malformed(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        Error::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let problem = Self::new(status(&error), error.to_string());
        match error {
            Error::Invalid { field, .. } => Self { field: Some(field), ..problem },
            Error::Conflict { field, .. } => Self { field: Some(field.to_owned()), ..problem },
            Error::NotFound { .. } | Error::Precondition { .. } => problem,
            Error::Store(error) => {
                tracing::error!(%error, transient = error.is_transient(), "the store failed");
                let problem = Self { detail: error.explanation().to_owned(), ..problem };
                if matches!(error, StoreError::Corrupt { .. } | StoreError::Malformed(_)) {
                    problem
                } else {
                    problem.retry_after(1)
                }
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (retry_after, detail) = (self.retry_after_s, Detail(self.detail.clone()));
        let mut response = (status, Extension(detail), Json(self)).into_response();
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
