//! Query strings and form fields: reading them, and writing links.
//!
//! A page shows what it can: parameters that it does not know are ignored.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

/// The fields of a query string or of a form, in their order. A name may occur more than once.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}

impl Fields {
    /// Parses `application/x-www-form-urlencoded` text.
    pub(super) fn parse(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// Returns fields with these values, to fill in a form.
    pub(super) fn filled<const N: usize>(fields: [(&str, String); N]) -> Self {
        Self(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns every value of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Returns a field's text without surrounding spaces. An absent field is empty.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.trim())
    }

    /// Returns a field's text, or `None` if the field is absent or empty.
    pub(super) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns a field as JSON: a number if its text is one, otherwise the text. The service refuses wrong values by name.
    pub(super) fn value(&self, name: &str) -> Value {
        let text = self.text(name);
        let whole = text.parse::<u64>().map(Value::from);
        whole.or_else(|_| text.parse::<f64>().map(Value::from)).unwrap_or_else(|_| Value::from(text))
    }

    /// Returns whether a checkbox is ticked.
    pub(super) fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), "on" | "true")
    }

    /// Returns whether the form carries this form key.
    pub(super) fn has_key(&self, form_key: &str) -> bool {
        self.text("form_key").as_bytes().ct_eq(form_key.as_bytes()).into()
    }
}

/// Returns a JSON object with these members, in the form in which the service takes changes.
pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the query string of the parameters that are not empty, with its question mark if there are any.
pub(super) fn query(params: &[(&str, &str)]) -> String {
    let given = params.iter().filter(|(_, value)| !value.is_empty());
    let encoded = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if encoded.is_empty() { encoded } else { format!("?{encoded}") }
}

/// Returns the path of an agent's page. Agent ids may contain slashes, which are encoded.
pub(super) fn agent_path(agent_id: &str) -> String {
    format!("/agents/{}", utf8_percent_encode(agent_id, NON_ALPHANUMERIC))
}
