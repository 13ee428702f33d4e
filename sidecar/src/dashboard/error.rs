//! Refusals as pages: what is wrong, and a way back.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::layout;
use super::query::query;
use crate::api::problem::status;
use crate::service::Error;
use crate::store::StoreError;

/// Why a page is not shown.
pub(super) enum Refusal {
    /// The visitor is not signed in. Holds the page to show afterwards.
    SignIn(String),
    /// The form did not come from a page of this dashboard.
    Forged,
    /// The visitor signed in with a viewer's token, which may not make changes.
    ReadOnly,
    /// The form is too large, or broke off.
    Unreadable,
    /// There were too many failed attempts. Holds the seconds to wait.
    TooMany(u64),
    /// The service refused.
    Service(Error),
}

/// Why a page is not shown, as an extension of the answer, so that a visitor who is signed in gets it as one of the
/// dashboard's own pages.
#[derive(Clone)]
pub(super) struct Refused(pub String);

pub(super) type Result<T> = std::result::Result<T, Refusal>;

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Service(error)
    }
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::SignIn(_) => StatusCode::UNAUTHORIZED,
            Self::Forged | Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::Unreadable => StatusCode::BAD_REQUEST,
            Self::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Service(error) => status(error),
        }
    }

    fn message(&self) -> String {
        let message = match self {
            Self::SignIn(_) => "Sign in first.",
            Self::Forged => {
                "This form is out of date or did not come from this dashboard. Reload the page and try again."
            }
            Self::ReadOnly => {
                "You are signed in with a viewer's token, which cannot change anything. Sign in with the password or \
                 with an operator's token."
            }
            Self::Unreadable => "The form could not be read.",
            Self::TooMany(seconds) => {
                return format!("Too many failed attempts from your address. Try again in {seconds} s.");
            }
            Self::Service(Error::Store(error)) => {
                tracing::error!(%error, "the store failed");
                match error {
                    StoreError::Busy(_) | StoreError::Unavailable(_) => {
                        "The database did not answer. A change may or may not have been made: look again in a moment."
                    }
                    StoreError::Replaced | StoreError::Malformed(_) | StoreError::Corrupt { .. } => error.explanation(),
                }
            }
            Self::Service(error) => return error.to_string(),
        };
        message.to_owned()
    }
}

pub(super) const TITLE: &str = "Not done";

/// Returns what a page says that is not shown.
pub(super) fn content(message: &str) -> Markup {
    html! {
        h1 { (TITLE) }
        p.notice.bad role="alert" { (message) }
        p { a href="/" { "Back to the overview" } }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if let Self::SignIn(next) = &self {
            return Redirect::to(&format!("/login{}", query(&[("next", next)]))).into_response();
        }
        let message = self.message();
        let mut response = (self.status(), layout::bare(TITLE, content(&message))).into_response();
        response.extensions_mut().insert(Refused(message));
        if let Self::TooMany(seconds) = self {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
