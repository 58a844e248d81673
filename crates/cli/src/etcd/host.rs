//! Addresses of this machine, and whether two URLs lead to one place.

use super::urls::Url;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Any address that is somewhere else: nothing is sent there.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address from which this machine reaches others; `None` if it reaches nobody.
pub(super) fn default_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ELSEWHERE).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

/// Whether two lists of URLs lead to the same places, after names of hosts are looked up.
pub(super) fn lead_to_the_same(urls: &[Url], others: &[Url]) -> bool {
    let places = |urls: &[Url]| -> BTreeSet<String> {
        urls.iter()
            .flat_map(|url| match resolve(&url.place) {
                found if url.host().is_none() || found.is_empty() => vec![url.to_string()],
                found => found
                    .iter()
                    .map(|at| format!("{:?} {at}", url.scheme))
                    .collect(),
            })
            .collect()
    };
    urls == others || places(urls) == places(others)
}

/// Whether two texts of the form `host:port` stand for one place.
pub(super) fn is_same_place(place: &str, other: &str) -> bool {
    place == other || resolve(place).iter().any(|at| resolve(other).contains(at))
}

fn resolve(place: &str) -> Vec<SocketAddr> {
    place
        .to_socket_addrs()
        .map(Iterator::collect)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::urls::list;
    use super::*;

    #[test]
    fn urls_are_the_same_by_their_text_or_by_their_addresses() {
        let urls = |text: &str| list("f", text).unwrap();
        for (one, other, is_same) in [
            ("http://a.invalid:1", "http://a.invalid:1", true),
            ("http://a.invalid:1", "http://b.invalid:1", false),
            ("http://127.0.0.1:1", "http://127.0.0.1:2", false),
            ("http://127.0.0.1:1", "https://127.0.0.1:1", false),
            ("http://[::1]:1", "http://[0:0::1]:1", true),
            ("unix:///a", "unix:///b", false),
        ] {
            let found = lead_to_the_same(&urls(one), &urls(other));
            assert_eq!(found, is_same, "{one} {other}");
        }
    }
}
