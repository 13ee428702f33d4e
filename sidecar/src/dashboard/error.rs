//! Refusals as pages: what is wrong, in words, and a way back.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::layout;
use crate::service::Error;

/// Why a page is not shown.
pub(super) enum Refusal {
    /// Nobody is signed in. Where to go afterwards.
    SignIn(String),
    /// A form that did not come from a page of ours.
    Forged,
    /// A viewer's session may not change anything.
    ReadOnly,
    /// The form cannot be read.
    Unreadable,
    /// Too many failed attempts; seconds left.
    TooMany(u64),
    /// The service said no.
    Service(Error),
}

pub(super) type Result<T> = std::result::Result<T, Refusal>;

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Service(error)
    }
}

impl Refusal {
    fn words(&self) -> (StatusCode, String) {
        const FORGED: &str = "This form is out of date or did not come from this dashboard. Reload the page and try \
                              again.";
        const READ_ONLY: &str = "You are signed in with a viewer's token, which changes nothing. Sign in with the \
                                 password or an operator's token.";
        match self {
            Self::SignIn(_) => (StatusCode::UNAUTHORIZED, "Sign in first.".to_owned()),
            Self::Forged => (StatusCode::FORBIDDEN, FORGED.to_owned()),
            Self::ReadOnly => (StatusCode::FORBIDDEN, READ_ONLY.to_owned()),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "The form could not be read.".to_owned()),
            Self::TooMany(seconds) => {
                let words = format!("Too many failed attempts from your address. Try again in {seconds} s.");
                (StatusCode::TOO_MANY_REQUESTS, words)
            }
            Self::Service(error) => (status(error), words(error)),
        }
    }
}

/// The status that an error of the service has.
pub(super) fn status(error: &Error) -> StatusCode {
    match error {
        Error::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Error::NotFound { .. } => StatusCode::NOT_FOUND,
        Error::Precondition { .. } => StatusCode::PRECONDITION_FAILED,
        Error::Conflict { .. } => StatusCode::CONFLICT,
        Error::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn words(error: &Error) -> String {
    match error {
        Error::Store(error) => {
            tracing::error!(%error, "the store failed");
            "The database did not answer. Look again in a moment: a change may or may not have been made.".to_owned()
        }
        other => other.to_string(),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if let Self::SignIn(next) = &self {
            let next = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
            return Redirect::to(&format!("/login?next={next}")).into_response();
        }
        let (status, words) = self.words();
        let page = layout::bare(
            "Not done",
            html! {
                h1 { "Not done" }
                p.notice.bad role="alert" { (words) }
                p { a href="/" { "Back to the agents" } }
            },
        );
        let mut response = (status, page).into_response();
        if let Self::TooMany(seconds) = self {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
