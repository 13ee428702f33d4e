//! Which addresses belong to the public internet.
//!
//! This is a list of networks that are refused, from the IANA registries of special-purpose addresses, since the standard
//! library's `is_global` is not stable. An IPv6 address that contains an IPv4 address is treated like the latter.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// IPv4 networks that are not public.
const REFUSED_V4: [Ipv4Net; 16] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    // Carrier-grade NAT. Some clouds have their metadata service here.
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    // Link-local. 169.254.169.254 is the metadata service of most clouds.
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    // Azure's virtual host, which is internal although its address is a public one.
    v4([168, 63, 129, 16], 32),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// All public IPv6 addresses are in this network, global unicast.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0], 3);
/// Networks in it that are not public.
const REFUSED_V6: [Ipv6Net; 3] = [
    // Teredo, benchmarking and ORCHID.
    v6([0x2001, 0], 23),
    // Documentation.
    v6([0x2001, 0x0db8], 32),
    v6([0x3fff, 0], 20),
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([first, second]: [u16; 2], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0), prefix)
}

/// Returns whether a webhook may be sent to this address without the operator's permission.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match contained_v4(address) {
            Some(contained) => is_public_v4(contained),
            None => GLOBAL_V6.contains(&address) && !REFUSED_V6.iter().any(|network| network.contains(&address)),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !REFUSED_V4.iter().any(|network| network.contains(&address))
}

/// Returns the IPv4 address in `::ffff:a.b.c.d`, `::a.b.c.d`, `::ffff:0:a.b.c.d`, `64:ff9b::a.b.c.d` or `2002:abcd::`.
fn contained_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(join(high, low)),
        (0x2002, ..) => Some(join(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_told_from_others_in_every_spelling() {
        let refused = "0.0.0.0 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 \
            172.31.255.255 192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1 203.0.113.9 168.63.129.16 224.0.0.1 \
            255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::127.0.0.1 ::ffff:0:7f00:1 64:ff9b::7f00:1 \
            2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 2001:db8::1 2001::1 100::1 3fff::1";
        let public = "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.169.0.1 169.253.0.1 198.20.0.1 \
            223.255.255.255 2606:4700:4700::1111 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::808:808";
        for (addresses, expected) in [(refused, false), (public, true)] {
            for address in addresses.split_whitespace() {
                assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
            }
        }
    }
}
