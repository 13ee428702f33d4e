//! Forms: of a bounded size, from this origin, and with the form key of the visitor who is signed in.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, header};
use tokio::time::timeout;

use super::Dashboard;
use super::error::{Refusal, Result};
use super::query::Fields;
use super::visitor::Visitor;

/// The size limit of a form whose sender is signed in.
const MAX_BYTES: usize = 256 * 1024;
/// The size limit of a form that anybody may send.
const MAX_STRANGER_BYTES: usize = 8 * 1024;
/// How long a browser may take to send a form.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A form sent by a visitor who is signed in and may make changes.
pub(super) struct Form {
    pub visitor: Visitor,
    pub fields: Fields,
}

impl FromRequest<Dashboard> for Form {
    type Rejection = Refusal;

    async fn from_request(request: Request, dashboard: &Dashboard) -> Result<Self> {
        let form = Self::of_any_visitor(request, dashboard).await?;
        if form.visitor.who.may_change() { Ok(form) } else { Err(Refusal::ReadOnly) }
    }
}

impl Form {
    /// Reads a form sent by a visitor who is signed in, but who may not be allowed to make changes.
    pub(super) async fn of_any_visitor(request: Request, dashboard: &Dashboard) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, dashboard).await?;
        let fields = read(Request::from_parts(parts, body), MAX_BYTES).await?;
        if fields.has_key(&visitor.form_key) { Ok(Self { visitor, fields }) } else { Err(Refusal::Forged) }
    }
}

/// Reads a form from a visitor who is not signed in yet. The caller checks its key.
pub(super) async fn of_stranger(request: Request) -> Result<Fields> {
    read(request, MAX_STRANGER_BYTES).await
}

/// Reads a form that comes from this origin.
async fn read(request: Request, max_bytes: usize) -> Result<Fields> {
    if !is_same_origin(request.headers()) {
        return Err(Refusal::Forged);
    }
    let reading = timeout(READ_TIMEOUT, to_bytes(request.into_body(), max_bytes));
    let bytes = reading.await.map_err(|_| Refusal::Unreadable)?.map_err(|_| Refusal::Unreadable)?;
    Ok(Fields::parse(&bytes))
}

/// Checks what the browser says about the origin of a form. If it says nothing, the form key has to be enough.
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
