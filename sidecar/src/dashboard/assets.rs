//! Style, script and icon, inside the binary.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;

const CSS: &str = include_str!("../../assets/app.css");
const JS: &str = include_str!("../../assets/app.js");
const ICON: &str = include_str!("../../assets/icon.svg");

fn of_type(content_type: &'static str) -> [(HeaderName, HeaderValue); 2] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        // Pages name the version in the address: a new one is fetched at once.
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400")),
    ]
}

pub(super) async fn css() -> impl IntoResponse {
    (of_type("text/css; charset=utf-8"), CSS)
}

pub(super) async fn js() -> impl IntoResponse {
    (of_type("text/javascript; charset=utf-8"), JS)
}

pub(super) async fn icon() -> impl IntoResponse {
    (of_type("image/svg+xml"), ICON)
}
