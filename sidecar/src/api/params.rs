//! Query parameters, with refusals that name them.
//!
//! A parameter that nobody asked for is refused like an unknown field: a filter that is misspelt must not list
//! everything.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::problem::{Problem, Result};
use crate::clock::parse_rfc3339;
use crate::model::Millis;

/// The most that one page holds.
const MAX_LIMIT: u32 = 1_000;
const DEFAULT_LIMIT: u32 = 100;

/// What stands behind the question mark.
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
    /// A parameter as text; absent and empty are the same.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// A parameter that `parse` understands; `expected` says what it must be.
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

    /// A whole number.
    pub(super) fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        self.parsed(name, "a whole number", |value| value.parse().ok())
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        self.parsed(name, "true or false", |value| value.parse().ok())
    }

    /// A time.
    pub(super) fn time(&mut self, name: &str) -> Result<Option<Millis>> {
        self.parsed(name, "a time like 2024-01-15T10:30:00Z", parse_rfc3339)
    }

    /// How many to list.
    pub(super) fn limit(&mut self) -> Result<u32> {
        let expected = format!("a whole number from 1 to {MAX_LIMIT}");
        let parse = |value: &str| value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        Ok(self.parsed("limit", &expected, parse)?.unwrap_or(DEFAULT_LIMIT))
    }

    /// Refuses what nobody asked for.
    pub(super) fn finish(self) -> Result<()> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => {
                let detail = format!("{} is not a parameter of this listing", name.escape_debug());
                Err(Problem::invalid(name, detail))
            }
        }
    }
}
