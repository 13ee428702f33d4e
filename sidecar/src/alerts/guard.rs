//! Where webhooks may go: the public internet, and further only if the operator says so.
//!
//! Checked when a rule is saved and again at every connection. The HTTP client resolves names through
//! [`GuardedResolver`], so that the address that was checked is the address connected to: a name that changes its mind
//! in between gains nothing. Addresses in the URL itself never reach a resolver and are checked beforehand; the URL
//! parser has by then turned `2130706433`, `0x7f.1` and `017700000001` into what they mean.

use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;
use super::target;

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// Every address that the name has now.
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

/// Decides where webhooks may go.
#[derive(Clone)]
pub struct Guard {
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
}

impl Guard {
    /// Only the public internet, by HTTPS.
    pub fn public(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, allow_private: false }
    }

    /// Anywhere, by plain HTTP too: the operator vouches for whoever may write rules.
    pub fn anywhere(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, allow_private: true }
    }

    /// Checks a URL in full, its name's present addresses included. A name that cannot be resolved now may pass: it is
    /// checked again when it can.
    pub(super) async fn check(&self, text: &str) -> Result<Url, String> {
        let url = self.check_literal(text)?;
        if let (false, Some(name)) = (self.allow_private, url.domain())
            && let Ok(addresses) = self.lookup.addresses(name).await
            && let Some(refused) = addresses.iter().find(|address| !is_public(**address))
        {
            return Err(format!("target leads to {refused}, which is not a public address"));
        }
        Ok(url)
    }

    /// Checks what the URL itself says.
    pub(super) fn check_literal(&self, text: &str) -> Result<Url, String> {
        let url = target::url(text, self.allow_private)?;
        let literal = match url.host() {
            Some(url::Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(url::Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        };
        match literal {
            Some(address) if !self.allow_private && !is_public(address) => {
                Err(format!("target leads to {address}, which is not a public address"))
            }
            _ => Ok(url),
        }
    }

    /// The resolver that keeps connections to what was checked.
    pub(super) fn resolver(&self) -> GuardedResolver {
        GuardedResolver(self.clone())
    }

    async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, Box<dyn StdError + Send + Sync>> {
        let addresses = self.lookup.addresses(name).await?;
        // One bad address condemns the name: whoever mixes them is up to something.
        if let Some(refused) = addresses.iter().find(|address| !self.allow_private && !is_public(**address)) {
            return Err(format!("{name} leads to {refused}, which is not a public address").into());
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

/// Resolves for the HTTP client, and only to what may be connected to.
pub(super) struct GuardedResolver(Guard);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let addresses = guard.resolve(name.as_str()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
