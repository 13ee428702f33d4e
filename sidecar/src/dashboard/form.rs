//! Forms: bounded, same-origin, and carrying the key of whoever is signed in.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::Dashboard;
use super::error::{Refusal, Result};
use super::visitor::Visitor;

const MAX: usize = 256 * 1024;

/// The fields of a form, in their order; a name may come more than once.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// A field's text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value.trim())
    }

    /// Whether a box is ticked.
    pub(super) fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), "on" | "true")
    }

    /// Every value of a name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.clone()).collect()
    }

    /// Whether the form carries this key.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.text("form_key").as_bytes().ct_eq(key.as_bytes()).into()
    }
}

/// A form sent by somebody who is signed in and may change things.
pub(super) struct Form {
    pub visitor: Visitor,
    pub fields: Fields,
}

impl FromRequest<Dashboard> for Form {
    type Rejection = Refusal;

    async fn from_request(request: Request, dashboard: &Dashboard) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, dashboard).await?;
        let fields = read(Request::from_parts(parts, body)).await?;
        if !fields.has_key(&visitor.form_key) {
            return Err(Refusal::Forged);
        }
        if !visitor.who.may_change() {
            return Err(Refusal::ReadOnly);
        }
        Ok(Self { visitor, fields })
    }
}

/// Reads a form that comes from this very origin.
pub(super) async fn read(request: Request) -> Result<Fields> {
    if !is_same_origin(request.headers()) {
        return Err(Refusal::Forged);
    }
    let bytes = to_bytes(request.into_body(), MAX).await.map_err(|_| Refusal::Unreadable)?;
    Ok(Fields(form_urlencoded::parse(&bytes).into_owned().collect()))
}

/// What browsers say of where a form comes from. Those that say nothing are left to the form's key.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    match (text("origin"), text(header::HOST.as_str())) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, authority)| authority == host),
        _ => true,
    }
}
