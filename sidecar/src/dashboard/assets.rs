//! The stylesheet, the script and the icon, which are compiled into the binary.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;

const CSS: &str = include_str!("../../assets/app.css");
const JS: &str = include_str!("../../assets/app.js");
const ICON: &str = include_str!("../../assets/icon.svg");

fn headers(content_type: &'static str) -> [(HeaderName, HeaderValue); 2] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        // Links to them contain the version, so a new version is fetched at once.
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400")),
    ]
}

pub(super) async fn css() -> impl IntoResponse {
    (headers("text/css; charset=utf-8"), CSS)
}

pub(super) async fn js() -> impl IntoResponse {
    (headers("text/javascript; charset=utf-8"), JS)
}

pub(super) async fn icon() -> impl IntoResponse {
    (headers("image/svg+xml"), ICON)
}
