//! HTTPS by certificate and key files.
//!
//! Handshakes run in tasks of their own: a client that begins one and falls silent must not keep the next from being
//! accepted. A renewed certificate is read at the next start.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ServeError;

/// A handshake is two round trips.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Reads both files; none if neither is given.
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

/// A listener whose connections have shaken hands.
pub(super) struct TlsListener {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: std::io::Result<SocketAddr>,
}

impl TlsListener {
    pub(super) fn start(mut listener: TcpListener, acceptor: TlsAcceptor) -> Self {
        let address = listener.local_addr();
        let (sender, ready) = mpsc::channel(64);
        tokio::spawn(async move {
            loop {
                // Waits and goes on where a connection cannot be accepted.
                let (stream, from) = Listener::accept(&mut listener).await;
                let (sender, acceptor) = (sender.clone(), acceptor.clone());
                if sender.is_closed() {
                    return;
                }
                tokio::spawn(async move {
                    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
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
        match &self.address {
            Ok(address) => Ok(*address),
            Err(error) => Err(std::io::Error::new(error.kind(), error.to_string())),
        }
    }
}

/// Connections whose small answers leave at once: a kill must not wait for Nagle's algorithm.
pub(super) trait Undelayed {
    /// Turns the delay off. Failing to is no reason to refuse the connection.
    fn undelay(&mut self);
}

impl Undelayed for TcpStream {
    fn undelay(&mut self) {
        let _ = self.set_nodelay(true);
    }
}

impl Undelayed for TlsStream<TcpStream> {
    fn undelay(&mut self) {
        let _ = self.get_ref().0.set_nodelay(true);
    }
}
