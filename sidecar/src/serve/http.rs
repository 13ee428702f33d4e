//! HTTP on a socket: accepts connections, with TLS or without, and serves the routes on them.
//!
//! hyper closes a connection that does not send the headers of its next request in time, whether it sends nothing or a few
//! bytes now and then, and one that sends too many of them. How long an answer takes is not limited, so that long polls and
//! live pages work.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::connections::{Connection, Connections, Use};
use super::proxies;
use crate::api::MARKER;
use crate::api::failures::Peer;
use crate::api::identified::OnIdentified;
use crate::api::problem::Problem;

/// How long a handshake may take. It needs two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes of a connection are read ahead, and therefore how long the headers of a request may be. By default, hyper
/// keeps more than 400 KiB for a stranger who never completes them.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// How long a connection that was opened beyond the limit may wait for its request.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// What all connections share.
#[derive(Clone)]
pub(super) struct Server {
    pub app: Router,
    pub tls: Option<TlsAcceptor>,
    pub connections: Arc<Connections>,
    pub trusted_proxies: Arc<[IpNet]>,
    /// How long a connection may wait for the headers of its next request.
    pub idle_timeout: Duration,
}

impl Server {
    /// Serves until `stop` ends. Connections that are open then are closed as soon as their request has ended; waiting for
    /// that is up to the caller.
    pub(super) async fn run(self, mut listener: TcpListener, stop: impl Future<Output = ()>) -> GracefulShutdown {
        let graceful = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            // If a connection cannot be accepted, this waits and tries again.
            let (stream, from) = tokio::select! {
                accepted = axum::serve::Listener::accept(&mut listener) => accepted,
                () = &mut stop => return graceful,
            };
            let Some(connection) = self.connections.open() else { continue };
            // Nagle's algorithm is turned off, so that small answers are sent at once. A connection works without that too.
            let _ = stream.set_nodelay(true);
            let (server, watcher, evicted) = (self.clone(), graceful.watcher(), connection.evicted());
            tokio::spawn(async move {
                tokio::select! {
                    () = server.serve(stream, from, connection, watcher) => {}
                    () = evicted.notified() => {}
                }
            });
            // Lets a connection that was evicted close its file before the next one is accepted.
            yield_now().await;
        }
    }

    async fn serve(self, stream: TcpStream, from: SocketAddr, connection: Connection, watcher: Watcher) {
        let Some(acceptor) = self.tls.clone() else { return self.serve_http(stream, from, connection, watcher).await };
        match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve_http(stream, from, connection, watcher).await,
            Ok(Err(error)) => tracing::debug!(%from, %error, "handshake failed"),
            Err(_) => tracing::debug!(%from, "handshake took too long"),
        }
    }

    async fn serve_http<S>(self, stream: S, from: SocketAddr, connection: Connection, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let patience = match connection.usable_for() {
            Use::Anything => self.idle_timeout,
            Use::HealthChecks => HEALTH_CHECK_TIMEOUT,
        };
        let connection = Arc::new(connection);
        let answer = service_fn(|request| self.clone().answer(request, from, Arc::clone(&connection)));
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .max_buf_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), answer);
        if let Err(error) = watcher.watch(served).await {
            tracing::debug!(%from, %error, "a connection ended early");
        }
    }

    async fn answer(
        mut self,
        request: Request<Incoming>,
        from: SocketAddr,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, Infallible> {
        let guard = RequestGuard(Arc::clone(&connection));
        if connection.usable_for() == Use::HealthChecks && !matches!(request.uri().path(), "/healthz" | "/readyz") {
            return Ok(over_limit());
        }
        let mut request = request.map(Body::new);
        let client = proxies::client(&self.trusted_proxies, from.ip(), request.headers());
        let on_identified = move || connection.identified();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, from.port())));
        request.extensions_mut().insert(Peer(from.ip()));
        request.extensions_mut().insert(OnIdentified(Arc::new(on_identified)));
        let response = self.app.call(request).await?;
        Ok(response.map(|body| Body::new(GuardedBody { body, _guard: guard })))
    }
}

fn over_limit() -> Response<Body> {
    let detail = "too many connections are open";
    let mut response = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(MARKER, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    response
}

/// Tells the connection when a request has ended, also if it was given up.
struct RequestGuard(Arc<Connection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

/// The body of an answer. The request ends when it has been sent.
struct GuardedBody {
    body: Body,
    _guard: RequestGuard,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
