//! What the HTTP clients of this crate share: the one of the command line and the one that delivers webhooks.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect};

/// Starts a client that gives up after `timeout` and follows no redirects.
pub(crate) fn builder(timeout: Duration) -> ClientBuilder {
    install_tls_provider();
    Client::builder().timeout(timeout).redirect(redirect::Policy::none())
}

/// Makes ring the TLS provider of this process, unless it has one already.
pub(crate) fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns the innermost cause of an error, such as `Connection refused`. The outer ones say only that a request failed,
/// and contain the URL, which may be a secret.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
