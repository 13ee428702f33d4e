//! What stands behind the question mark. A page shows what it can: what it does not know it ignores.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Parameters in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Query {
    /// A parameter's text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value.trim())
    }

    /// The same, none if empty.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Every value of a name.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// A query string of what is not empty.
pub(super) fn query(params: &[(&str, &str)]) -> String {
    let given = params.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<_> =
        given.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// The page of an agent, whatever its id holds.
pub(super) fn agent_path(agent_id: &str) -> String {
    format!("/agents/{}", utf8_percent_encode(agent_id, NON_ALPHANUMERIC))
}
