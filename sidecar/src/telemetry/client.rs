//! The HTTP client of the exporters: the one that the sidecar has already.
//!
//! The SDK calls it from a thread of its own, without a runtime, so each request runs as a task of the sidecar's runtime.
//! The SDK says nothing about failures in the log. That is done here, once when they begin and once when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

use crate::http_client::{self, cause};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A client for exporters.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    runtime: Handle,
    is_failing: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new() -> reqwest::Result<Self> {
        let http = http_client::builder(TIMEOUT).build()?;
        Ok(Self { http, runtime: Handle::current(), is_failing: Arc::default() })
    }

    fn report(&self, failure: Option<&str>) {
        match (self.is_failing.swap(failure.is_some(), Ordering::Relaxed), failure) {
            (false, Some(error)) => tracing::warn!(error, "telemetry cannot be exported; records are dropped"),
            (true, None) => tracing::info!("telemetry is exported again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let http = self.http.clone();
        let exchange = async move {
            let mut response = http.execute(request).await?;
            let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
            Ok::<_, reqwest::Error>((status, headers, response.bytes().await?))
        };
        match self.runtime.spawn(exchange).await? {
            Ok((status, headers, body)) => {
                let refused = (!status.is_success()).then(|| format!("the receiver answered {status}"));
                self.report(refused.as_deref());
                let mut response = Response::new(body);
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                Ok(response)
            }
            Err(error) => {
                let error = cause(&error);
                self.report(Some(&error));
                Err(error.into())
            }
        }
    }
}
