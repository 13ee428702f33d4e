//! Query parameters, and errors that name the wrong one.
//!
//! Unknown parameters are refused: a misspelt filter must not list everything.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::problem::{Problem, Result};
use crate::clock::parse_rfc3339;
use crate::model::Millis;

/// How many entries a page can have at most.
const MAX_LIMIT: u32 = 1_000;
const DEFAULT_LIMIT: u32 = 100;

/// The parameters that have not been read yet.
pub(super) struct Params(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        match Query::<BTreeMap<String, String>>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, error.body_text())),
        }
    }
}

impl Params {
    /// Takes a parameter as text. Returns `None` if it is absent or empty.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// Takes a parameter and parses it. `expected` completes the error message "NAME must be ...".
    pub(super) fn parsed<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.text(name) else { return Ok(None) };
        let refused = || Problem::invalid(name, format!("{name} must be {expected}"));
        parse(&value).map(Some).ok_or_else(refused)
    }

    pub(super) fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        self.parsed(name, "a whole number", |value| value.parse().ok())
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        self.parsed(name, "true or false", |value| value.parse().ok())
    }

    pub(super) fn time(&mut self, name: &str) -> Result<Option<Millis>> {
        self.parsed(name, "a time like 2024-01-15T10:30:00Z", parse_rfc3339)
    }

    /// Takes `limit`, the size of the page.
    pub(super) fn limit(&mut self) -> Result<u32> {
        let expected = format!("a whole number from 1 to {MAX_LIMIT}");
        let parse = |value: &str| value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        Ok(self.parsed("limit", &expected, parse)?.unwrap_or(DEFAULT_LIMIT))
    }

    /// Refuses the request if it has a parameter that was not read.
    pub(super) fn finish(self) -> Result<()> {
        let Some(name) = self.0.into_keys().next() else { return Ok(()) };
        let detail = format!("{} is not a parameter here", name.escape_debug());
        Err(Problem::invalid(name, detail))
    }
}
