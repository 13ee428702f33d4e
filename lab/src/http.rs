//! The one HTTP client configuration here: whatever proxies the environment names, the loopback interface needs none.

/// A client that keeps connections.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("no option here can fail")
}

/// A client that opens a connection for every request.
pub fn client_without_keep_alive() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("no option here can fail")
}
