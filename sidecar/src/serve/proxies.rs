//! The address of a client behind a proxy.
//!
//! Behind an ingress or a load balancer all requests come from the same address, and a limit per address would be a limit
//! for everybody. Such a proxy appends the address of its client to `X-Forwarded-For`. A client can send this header too,
//! so only what was appended by a proxy that the operator trusts is believed.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Reads an address or a network.
pub(super) fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| "must be an address or a network such as 10.0.0.0/8".to_owned())
}

/// Returns the address of the client: that of its connection, or what trusted proxies say about it.
pub(super) fn client(trusted: &[IpNet], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let mut client = peer.to_canonical();
    // The last entry was appended by the proxy that is connected here, the one before it by the proxy before that one.
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    for entry in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
        if !is_trusted(client) {
            break;
        }
        // What stands before an entry that cannot be read may come from the client.
        let Some(before) = parse_entry(entry) else { break };
        client = before.to_canonical();
    }
    client
}

/// Reads an entry of the header. Some proxies add a port.
fn parse_entry(entry: &[u8]) -> Option<IpAddr> {
    let entry = str::from_utf8(entry).ok()?.trim();
    entry.parse().ok().or_else(|| entry.parse().ok().map(|address: SocketAddr| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_what_trusted_proxies_appended_is_believed() {
        let trusted = ["10.0.0.0/8", "192.0.2.7", "fd00::/8"].map(|text| parse_network(text).unwrap());
        for (peer, lines, expected) in [
            ("198.51.100.1", &["203.0.113.9"][..], "198.51.100.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("::ffff:10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.9, 192.0.2.7"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1", "203.0.113.9:443"], "203.0.113.9"),
            ("fd00::1", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("10.0.0.1", &["1.1.1.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
            ("10.0.0.1", &["203.0.113.9", "\u{fc}"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, \u{fc}, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["\u{fc}, 203.0.113.9"], "203.0.113.9"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            let found = client(&trusted, peer.parse().unwrap(), &headers);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
        assert!(parse_network("everyone").is_err());
    }
}
