//! Under which names browsers may ask a gateway for its page.
//!
//! The page of another site cannot read what comes from here, and gets no WebSocket, because its origin is not the host
//! that it asks. That is worth nothing where its own name leads here: whoever has a name can have it lead to any
//! address, such as that of a gateway in a private network, after the page was loaded. A browser still says that name,
//! and none that is not known here is answered.

use std::net::IpAddr;

/// The names that are known here, besides addresses.
#[derive(Clone, Debug, Default)]
pub struct SiteNames {
    /// In small letters, without ports.
    names: Vec<String>,
}

impl SiteNames {
    /// The name in an address that is listened at, if it has one, and more names.
    ///
    /// # Errors
    /// Says which of the names cannot be that of a site.
    pub fn new(listens: &str, more: &[String]) -> Result<SiteNames, String> {
        if let Some(wrong) = more.iter().find(|name| !is_name(name)) {
            return Err(format!(
                "--web-names {wrong}: a name is letters, digits, dots and hyphens, without a port, as in \
                 exchange.example.org"
            ));
        }
        let own = host_of(listens).filter(|name| is_name(name));
        let names = own.into_iter().chain(more.iter().map(String::as_str));
        Ok(SiteNames {
            names: names.map(str::to_ascii_lowercase).collect(),
        })
    }

    /// Whether a browser that came in at an address may say this host, with or without a port. Nobody else can have
    /// an address, or the names of this very machine, lead anywhere.
    pub(super) fn admit(&self, host: &str, came_in_at: IpAddr) -> bool {
        let Some(name) = host_of(host) else {
            return false;
        };
        let name = name.to_ascii_lowercase();
        if let Ok(address) = bare(&name).parse::<IpAddr>() {
            return address.is_loopback() || address.to_canonical() == came_in_at.to_canonical();
        }
        name == "localhost" || self.names.contains(&name)
    }
}

/// The host of `host` or `host:port`; `None` where the port is no number.
fn host_of(text: &str) -> Option<&str> {
    match text.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((_, port)) if port.ends_with(']') => Some(text),
        Some((host, port)) => port.parse::<u16>().is_ok().then_some(host),
        None => Some(text),
    }
}

/// An address without the brackets that it has in front of a port.
fn bare(host: &str) -> &str {
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inside.unwrap_or(host)
}

fn is_name(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !text.is_empty() && text.bytes().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> SiteNames {
        SiteNames::new("gateway.local:9100", &["Exchange.Example.org".to_owned()]).unwrap()
    }

    fn admits(host: &str) -> bool {
        names().admit(host, IpAddr::from([10, 0, 0, 7]))
    }

    #[test]
    fn its_own_addresses_and_names_are_known() {
        for host in [
            "10.0.0.7:9100",
            "10.0.0.7",
            "127.0.0.1:9100",
            "[::1]:9100",
            "[::1]",
            "localhost:8080",
            "LOCALHOST",
            "gateway.local:9100",
            "exchange.example.ORG",
        ] {
            assert!(admits(host), "{host}");
        }
        let mapped = "::ffff:10.0.0.7".parse().unwrap();
        assert!(names().admit("10.0.0.7:9100", mapped));
    }

    #[test]
    fn a_name_that_anybody_may_have_is_not() {
        for host in [
            "evil.example",
            "evil.example:9100",
            "localhost.evil.example:9100",
            "127.0.0.1.evil.example",
            "exchange.example.org.evil.example",
            "10.0.0.8:9100",
            "10.0.0.7:9100:9100",
            "evil.example@localhost",
            "localhost:port",
            "localhost.",
            "",
            ":9100",
        ] {
            assert!(!admits(host), "{host}");
        }
    }

    #[test]
    fn an_option_that_is_no_name_is_refused() {
        for wrong in ["exchange.example.org:9100", "http://exchange", ""] {
            let refused = SiteNames::new("127.0.0.1:0", &[wrong.to_owned()]);
            assert!(
                refused.unwrap_err().contains("a name is letters"),
                "{wrong}"
            );
        }
    }
}
