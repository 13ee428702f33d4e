//! HTTPS with a certificate and a key from files. A renewed certificate is used after a restart.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::ServeError;

/// Browsers must not use plain HTTP with this host for a year.
const STRICT_TRANSPORT_SECURITY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Reads both files. Returns `None` if none are given.
pub(super) fn acceptor(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<TlsAcceptor>, ServeError> {
    let (Some(cert_path), Some(key_path)) = (cert, key) else { return Ok(None) };
    let unreadable = |path: &Path, reason: String| ServeError::File { path: path.to_owned(), reason };
    let chain = CertificateDer::pem_file_iter(cert_path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(cert_path, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| unreadable(key_path, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Adds the header that tells browsers to use only HTTPS from now on.
pub(super) fn with_strict_transport_security(app: Router) -> Router {
    app.layer(map_response(async |mut response: Response| {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT_SECURITY);
        response
    }))
}
