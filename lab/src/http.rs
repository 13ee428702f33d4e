//! The HTTP clients of this crate. They ignore the environment's proxies, since everything is on the loopback interface.

pub use reqwest::Client;

/// Returns a client that keeps connections.
pub fn client() -> Client {
    builder().build().expect("no option here can fail")
}

/// Returns a client that opens a connection for every request.
pub fn client_without_keep_alive() -> Client {
    builder().pool_max_idle_per_host(0).build().expect("no option here can fail")
}

/// Returns a client that speaks HTTP/2 from the first byte.
pub fn client_over_http2() -> Client {
    builder().http2_prior_knowledge().build().expect("no option here can fail")
}

fn builder() -> reqwest::ClientBuilder {
    // In a build of the whole workspace reqwest has TLS, which the sidecar asks for, and panics without a provider. The
    // call fails if there is a provider already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy()
}
