//! The one HTTP client configuration here: whatever proxies the environment names, the loopback interface needs none.

/// A client that keeps connections.
pub fn client() -> reqwest::Client {
    builder().build().expect("no option here can fail")
}

/// A client that opens a connection for every request.
pub fn client_without_keep_alive() -> reqwest::Client {
    builder().pool_max_idle_per_host(0).build().expect("no option here can fail")
}

fn builder() -> reqwest::ClientBuilder {
    // `cargo test --workspace` gives this crate the features that the sidecar asks for, TLS among them, and a client then
    // panics without a provider. That there is one already is no failure.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}
