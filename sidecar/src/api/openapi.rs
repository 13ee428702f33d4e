//! `/openapi.json`: the OpenAPI description of this interface.
//!
//! The document is written by hand (see `docs/adr/0007-openapi-by-hand.md`). `tests/it/openapi.rs` compares it with the
//! list of routes and with real answers.

use axum::http::{HeaderName, header};

pub(super) const DOCUMENT: ([(HeaderName, &str); 1], &str) =
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../../openapi.json"));
