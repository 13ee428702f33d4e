//! `/openapi.json`: the interface, described for machines.
//!
//! Kept by hand, since the types that it describes are the filter's own and carry no schema; `tests/it/openapi.rs`
//! holds it against the list of routes and against what the routes really answer.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

const DOCUMENT: &str = include_str!("../../openapi.json");

pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT).into_response()
}
