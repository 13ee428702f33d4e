//! The stylesheet, the script and the icon, which are compiled into the binary.

use axum::http::{HeaderName, header};

pub(super) const CSS: Asset = asset("text/css; charset=utf-8", include_str!("../../assets/app.css"));
pub(super) const JS: Asset = asset("text/javascript; charset=utf-8", include_str!("../../assets/app.js"));
pub(super) const ICON: Asset = asset("image/svg+xml", include_str!("../../assets/icon.svg"));

/// A response that is always the same.
type Asset = ([(HeaderName, &'static str); 2], &'static str);

const fn asset(content_type: &'static str, text: &'static str) -> Asset {
    // Links to assets contain the version, so a new version is fetched at once.
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "public, max-age=86400")], text)
}
