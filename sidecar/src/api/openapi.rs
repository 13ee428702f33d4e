//! `/openapi.json`: the OpenAPI description of this interface.
//!
//! The document is written by hand (see `docs/adr/0007-openapi-by-hand.md`). `tests/it/openapi.rs` compares it with the
//! list of routes and with real answers.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

const DOCUMENT: &str = include_str!("../../openapi.json");

pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT).into_response()
}
