//! Which addresses belong to the public internet.
//!
//! A list of what is refused, from the IANA registries of special-purpose addresses; the standard library's own
//! `is_global` is not stable. IPv6 forms that carry an IPv4 address are judged by the address they carry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a webhook may be sent there although nobody vouched for it.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    const REFUSED: [([u8; 4], u32); 16] = [
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        // Carrier-grade NAT; some clouds keep their metadata here.
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        // Link-local: 169.254.169.254 is the metadata service of most clouds.
        ([169, 254, 0, 0], 16),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        // Azure's virtual host: public by number, internal by nature.
        ([168, 63, 129, 16], 32),
        ([224, 0, 0, 0], 4),
        ([240, 0, 0, 0], 4),
    ];
    let bits = u32::from(address);
    !REFUSED.iter().any(|(network, length)| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or_default();
        bits & mask == u32::from_be_bytes(*network)
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(carried) = carried_v4(address) {
        return is_public_v4(carried);
    }
    let [first, second, ..] = address.segments();
    // Global unicast, less documentation, Teredo and the benchmarking and ORCHID blocks of 2001::/23.
    (0x2000..0x4000).contains(&first)
        && !(first == 0x2001 && second < 0x0200)
        && !(first == 0x2001 && second == 0x0db8)
        && !(first == 0x3fff && second < 0x1000)
}

/// The IPv4 address inside `::ffff:a.b.c.d`, `::a.b.c.d`, `64:ff9b::a.b.c.d` and `2002:abcd::`.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let from = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(from(high, low)),
        (0x2002, ..) => Some(from(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_refused_in_every_spelling() {
        for text in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.9",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:a9fe:a9fe",
            "::127.0.0.1",
            "::ffff:0:7f00:1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "3fff::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_public_is_not() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "169.253.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
