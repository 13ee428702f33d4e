//! Decides where webhooks may be sent: to public addresses, and to private ones only if the operator allows it.
//!
//! A target is checked when its rule is saved and again at every connection. The HTTP client resolves names through
//! [`Guard`], so it connects to the same addresses that were checked, even if the name has got other addresses in
//! the meantime. An address in the URL itself never reaches the resolver, so it is checked before the request. By then the
//! URL parser has turned spellings such as `2130706433`, `0x7f.1` and `017700000001` into the address that they mean.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;
use super::target;

/// Resolves names.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// Returns all addresses that the name has now.
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The machine's own resolver.
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Decides where webhooks may be sent.
#[derive(Clone)]
pub struct Guard {
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
}

impl Guard {
    /// Allows only public addresses, and only HTTPS.
    pub fn public(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, allow_private: false }
    }

    /// Allows all addresses, and plain HTTP too. The operator must trust everybody who may create rules.
    pub fn anywhere(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, allow_private: true }
    }

    /// Checks a URL, including the present addresses of its name. A name that cannot be resolved now is accepted, since
    /// it is checked again at every connection.
    pub(super) async fn check(&self, text: &str) -> Result<Url, String> {
        let url = self.check_literal(text)?;
        if !self.allow_private
            && let Some(name) = url.domain()
            && let Ok(addresses) = self.lookup.addresses(name).await
        {
            self.check_addresses("target", &addresses)?;
        }
        Ok(url)
    }

    /// Checks a URL without resolving its name.
    pub(super) fn check_literal(&self, text: &str) -> Result<Url, String> {
        let url = target::url(text, self.allow_private)?;
        let address = match url.host() {
            Some(url::Host::Ipv4(address)) => IpAddr::V4(address),
            Some(url::Host::Ipv6(address)) => IpAddr::V6(address),
            _ => return Ok(url),
        };
        self.check_addresses("target", &[address])?;
        Ok(url)
    }

    /// Checks the addresses of a name. One that is not public is enough to refuse it.
    fn check_addresses(&self, name: &str, addresses: &[IpAddr]) -> Result<(), String> {
        match addresses.iter().find(|address| !self.allow_private && !is_public(**address)) {
            Some(refused) => Err(format!("{name} leads to {refused}, which is not a public address")),
            None => Ok(()),
        }
    }
}

/// Resolves names for the HTTP client, and fails if an address is not allowed.
impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.lookup.addresses(name.as_str()).await?;
            guard.check_addresses(name.as_str(), &addresses)?;
            Ok(Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
