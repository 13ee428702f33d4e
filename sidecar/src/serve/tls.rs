//! HTTPS with a certificate and a key from files.
//!
//! Each handshake runs in a task of its own, so that a client that does not finish it cannot keep others from connecting.
//! A renewed certificate is used after a restart.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ServeError;

/// How long a handshake may take. It needs two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

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

/// A listener that returns connections whose handshake is complete.
pub(super) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    pub(super) fn start(
        mut listener: impl Listener<Io = TcpStream, Addr = SocketAddr>,
        address: SocketAddr,
        acceptor: TlsAcceptor,
    ) -> Self {
        let (sender, ready) = mpsc::channel(64);
        tokio::spawn(async move {
            loop {
                // If a connection cannot be accepted, this waits and tries again.
                let (stream, from) = listener.accept().await;
                let (sender, acceptor) = (sender.clone(), acceptor.clone());
                if sender.is_closed() {
                    return;
                }
                tokio::spawn(async move {
                    match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => drop(sender.send((stream, from)).await),
                        Ok(Err(error)) => tracing::debug!(%from, %error, "handshake failed"),
                        Err(_) => tracing::debug!(%from, "handshake took too long"),
                    }
                });
            }
        });
        Self { ready, address }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}
