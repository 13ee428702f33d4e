//! Tells the server as soon as the caller of a request is known.

use std::sync::Arc;

use axum::http::Extensions;

/// What to call once the caller of a request has proved who they are. The server puts it into the extensions of each
/// request: a connection with such a request is not closed in favour of a new one.
#[derive(Clone)]
pub(crate) struct OnIdentified(pub Arc<dyn Fn() + Send + Sync>);

impl OnIdentified {
    /// Calls it, if the server has put it into the extensions of this request.
    pub(crate) fn call(extensions: &Extensions) {
        if let Some(Self(call)) = extensions.get() {
            call();
        }
    }
}
