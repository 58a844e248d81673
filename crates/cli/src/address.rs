//! URLs of ports, as etcd's flags have them: `http://host:port`, or `https://host:port` where TLS is spoken.

use std::net::{IpAddr, Ipv6Addr};

/// Where to listen for clients, by each URL in a list given for `flag`: `host:port`, or `unix:PATH` for a socket in the
/// file system.
pub(crate) fn places(flag: &str, urls: &str) -> Result<Vec<String>, String> {
    let place = |url: &str| match url.strip_prefix("unix:") {
        None => host_port(flag, url),
        Some(rest) => match rest.strip_prefix("//").unwrap_or(rest) {
            "" => Err(format!("--{flag} {url:?} has no path of a socket")),
            path => Ok(format!("unix:{path}")),
        },
    };
    are_https(flag, urls)?;
    urls.split(',').map(place).collect()
}

/// The `host:port` of each URL in a list given for `flag`, with commas between them.
pub(crate) fn host_ports(flag: &str, urls: &str) -> Result<Vec<String>, String> {
    are_https(flag, urls)?;
    urls.split(',').map(|url| host_port(flag, url)).collect()
}

/// The `host:port` of a URL given for `flag`.
pub(crate) fn host_port(flag: &str, url: &str) -> Result<String, String> {
    if url.contains(',') {
        return Err(format!(
            "--{flag} {url:?}: one URL is wanted, not a list of them"
        ));
    }
    if url.starts_with("unix") {
        return Err(format!(
            "--{flag} {url:?}: only http:// and https:// are supported"
        ));
    }
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
        .map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let port = rest
        .filter(|rest| !rest.contains('/'))
        .and_then(|rest| rest.rsplit_once(':'))
        .filter(|(host, _)| !host.is_empty())
        .and_then(|(_, port)| port.parse::<u16>().ok());
    if let Some(why) = rest.and_then(port_too_large) {
        return Err(format!("--{flag} {url:?}: {why}"));
    }
    if let Some((host, _)) = rest.and_then(|rest| rest.rsplit_once(':'))
        && host.contains(':')
        && !is_bracketed(host)
    {
        return Err(format!(
            "--{flag} {url:?}: an IPv6 address is written in brackets, as in http://[::1]:2379"
        ));
    }
    match (rest, port) {
        (Some(rest), Some(_)) => Ok(rest.to_owned()),
        _ => Err(format!(
            "--{flag} {url:?} is not of the form http://host:port or https://host:port"
        )),
    }
}

/// In words, if the port of `host:port` is a number beyond all ports.
pub(crate) fn port_too_large(host_port: &str) -> Option<String> {
    let (_, port) = host_port.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && port.parse::<u16>().is_err())
        .then(|| format!("port {port} is too large: ports go up to {}", u16::MAX))
}

/// Whether a URL, or the first of a list, asks for TLS.
pub(crate) fn is_https(url: &str) -> bool {
    url.starts_with("https://")
}

/// Whether the ports in a list of URLs speak TLS: all of them or none.
pub(crate) fn are_https(flag: &str, urls: &str) -> Result<bool, String> {
    let first = is_https(urls);
    match urls.split(',').all(|url| is_https(url) == first) {
        true => Ok(first),
        false => Err(format!(
            "--{flag} {urls:?}: either all of these say https:// or all say http://"
        )),
    }
}

/// The host in `host:port`.
pub(crate) fn host(host_port: &str) -> &str {
    host_port
        .rsplit_once(':')
        .map_or(host_port, |(host, _)| host)
}

fn is_bracketed(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// Whether `host:port` stands for every address of a machine, and so for none that others could reach it at.
pub(crate) fn is_unspecified(host_port: &str) -> bool {
    let host = host(host_port);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

/// Whether `host:port` can be reached from its own machine alone.
pub(crate) fn is_loopback(host_port: &str) -> bool {
    let host = host(host_port);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{host_port, host_ports, is_loopback, is_unspecified, places};

    #[test]
    fn only_urls_with_a_port_are_taken() {
        assert_eq!(
            host_port("x", "http://127.0.0.1:2379").unwrap(),
            "127.0.0.1:2379"
        );
        assert_eq!(host_port("x", "http://[::1]:2379/").unwrap(), "[::1]:2379");
        assert_eq!(host_port("x", "https://db:1").unwrap(), "db:1");
        for (url, why) in [
            ("127.0.0.1:2379", "not of the form"),
            ("http://127.0.0.1", "not of the form"),
            ("http://:2379", "not of the form"),
            (
                "http://a:99999",
                "port 99999 is too large: ports go up to 65535",
            ),
            ("http://a:1/path", "not of the form"),
            ("unix://a:1", "only http:// and https://"),
            ("http://a:1,http://b:2", "one URL"),
            ("http://::1:2379", "in brackets"),
            ("http://[::1:2379", "in brackets"),
            ("http://[::g]:2379", "in brackets"),
        ] {
            let error = host_port("listen-client-urls", url).unwrap_err();
            assert!(
                error.contains(why) && error.contains("--listen-client-urls"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_list_is_taken_where_one_is_wanted() {
        let urls = "http://127.0.0.1:1,http://[::1]:2";
        let both = ["127.0.0.1:1".to_owned(), "[::1]:2".to_owned()];
        assert_eq!(host_ports("x", urls).as_deref(), Ok(&both[..]));
        assert!(host_ports("x", "http://a:1,").is_err());
        let urls = "unix:///run/s,http://a:1,unix:s";
        let found = places("x", urls).unwrap();
        assert_eq!(found, ["unix:/run/s", "a:1", "unix:s"]);
        assert!(places("x", "unix://").is_err());
        let error = places("x", "http://a:1,https://b:1").unwrap_err();
        assert!(
            error.contains("either all of these say https://"),
            "{error}"
        );
    }

    #[test]
    fn an_address_that_stands_for_all_is_known() {
        for address in ["0.0.0.0:2379", "[::]:2379"] {
            assert!(is_unspecified(address), "{address}");
        }
        for address in ["127.0.0.1:2379", "[::1]:2379", "host:2379", "10.0.0.0:1"] {
            assert!(!is_unspecified(address), "{address}");
            let is_own = !address.starts_with("host") && !address.starts_with("10.");
            assert_eq!(is_loopback(address), is_own, "{address}");
        }
    }
}
