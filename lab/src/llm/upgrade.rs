//! Connections that leave HTTP: after the upgrade, everything that the client sends is echoed.
//!
//! That is enough to see whether a proxy lets WebSockets through. Frames are not parsed and the handshake's key is not
//! answered, so a browser would refuse the connection.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;

/// Returns whether a request asks for an upgrade.
pub fn asked(request: &Request) -> bool {
    request.headers().contains_key(header::UPGRADE)
}

/// Switches protocols and echoes until the client closes.
pub fn echo(request: Request) -> Response {
    let protocol = request.headers().get(header::UPGRADE).cloned();
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let Ok(connection) = upgrade.await else { return };
        let (mut from, mut to) = tokio::io::split(TokioIo::new(connection));
        // The result does not matter: the echo ends with the connection.
        let _ = tokio::io::copy(&mut from, &mut to).await;
    });
    let mut response = (StatusCode::SWITCHING_PROTOCOLS, [(header::CONNECTION, "upgrade")]).into_response();
    response.headers_mut().extend(protocol.map(|protocol| (header::UPGRADE, protocol)));
    response
}
