//! Lists of URLs, as etcd's flags have them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The most URLs in a list.
const URLS_MAX: usize = 64;

/// Where something is listened for or reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// `host:port`, or the path of a socket.
    pub(crate) place: String,
}

/// How a connection to a URL begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Scheme {
    Http,
    Https,
    Unix,
    Unixs,
}

/// Reads a list for `flag`, sorted and each once, as etcd keeps it.
///
/// # Errors
/// What is wrong with one of them.
pub(crate) fn list(flag: &str, text: &str) -> Result<Vec<Url>, String> {
    let mut urls = Vec::new();
    for word in text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        urls.push(Url::of(word).map_err(|why| format!("--{flag}: {why}"))?);
        if urls.len() > URLS_MAX {
            return Err(format!("--{flag}: more than {URLS_MAX} URLs"));
        }
    }
    urls.sort();
    urls.dedup();
    Ok(urls)
}

impl Url {
    fn of(text: &str) -> Result<Url, String> {
        let (scheme, rest) = text
            .split_once("://")
            .or_else(|| {
                text.split_once(':')
                    .filter(|(word, _)| word.starts_with("unix"))
            })
            .unwrap_or((text, ""));
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "unix" => Scheme::Unix,
            "unixs" => Scheme::Unixs,
            _ => {
                return Err(format!(
                    "URL scheme must be http, https, unix, or unixs: {text}"
                ));
            }
        };
        let place = match scheme {
            Scheme::Unix | Scheme::Unixs if rest.is_empty() => {
                return Err(format!("URL has no path of a socket: {text}"));
            }
            Scheme::Unix | Scheme::Unixs => rest.to_owned(),
            Scheme::Http | Scheme::Https => place_of(text, rest)?,
        };
        Ok(Url { scheme, place })
    }

    /// The host of a URL that has one.
    pub(crate) fn host(&self) -> Option<&str> {
        match self.scheme {
            Scheme::Unix | Scheme::Unixs => None,
            Scheme::Http | Scheme::Https => {
                let (host, _) = self.place.rsplit_once(':')?;
                Some(host.trim_start_matches('[').trim_end_matches(']'))
            }
        }
    }

    /// Whether it stands for every address of a machine.
    pub(crate) fn is_unspecified(&self) -> bool {
        let address = self.host().and_then(|host| host.parse::<IpAddr>().ok());
        address.is_some_and(|address| address.is_unspecified())
    }

    /// A URL with this one's port at another host.
    pub(crate) fn at(&self, host: &str) -> Url {
        let port = self.place.rsplit_once(':').map_or("", |(_, port)| port);
        let place = match host.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{host}]:{port}"),
            Err(_) => format!("{host}:{port}"),
        };
        Url {
            scheme: self.scheme,
            place,
        }
    }
}

/// The `host:port` behind a scheme.
fn place_of(text: &str, rest: &str) -> Result<String, String> {
    let place = rest.strip_suffix('/').unwrap_or(rest);
    if place.contains(['/', '?', '#']) {
        return Err(format!("URL must not contain a path: {text}"));
    }
    let wrong = || format!("URL address does not have the form \"host:port\": {text}");
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    let is_bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_host = is_bracketed || !(host.is_empty() || host.contains([':', '[', ']', '@', '=']));
    match port.parse::<u16>() {
        Ok(_) if is_host => Ok(place.to_owned()),
        _ => Err(wrong()),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Unix => "unix",
            Scheme::Unixs => "unixs",
        };
        write!(f, "{scheme}://{}", self.place)
    }
}

/// A list as text.
pub(crate) fn joined(urls: &[Url]) -> String {
    let urls: Vec<String> = urls.iter().map(Url::to_string).collect();
    urls.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_and_each_url_is_there_once() {
        let text =
            "https://b:2, http://[::1]:1/,http://127.0.0.1:1,https://b:2,unix:///s,unix:c.sock,";
        let urls = list("listen-client-urls", text).unwrap();
        let sorted = "http://127.0.0.1:1,http://[::1]:1,https://b:2,unix:///s,unix://c.sock";
        assert_eq!(joined(&urls), sorted);
        let hosts: Vec<_> = urls.iter().map(Url::host).collect();
        assert_eq!(
            hosts,
            [Some("127.0.0.1"), Some("::1"), Some("b"), None, None]
        );
        assert_eq!(urls[0].at("fe80::1").to_string(), "http://[fe80::1]:1");
        assert_eq!(urls[2].at("c").to_string(), "https://c:2");
        assert_eq!(list("x", ""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_url_is_refused_in_words_that_etcd_has() {
        for (text, why) in [
            (
                "127.0.0.1:2379",
                "URL scheme must be http, https, unix, or unixs: 127.0.0.1:2379",
            ),
            ("ftp://a:1", "URL scheme must be"),
            (
                "http://a",
                "URL address does not have the form \"host:port\": http://a",
            ),
            ("http://:1", "URL address does not have"),
            ("http://a:99999", "URL address does not have"),
            ("http://::1:1", "URL address does not have"),
            ("http://user@a:1", "URL address does not have"),
            (
                "http://a:1/path",
                "URL must not contain a path: http://a:1/path",
            ),
            ("unix://", "URL has no path"),
        ] {
            let said = list("f", text).unwrap_err();
            assert!(said.starts_with(&format!("--f: {why}")), "{said}");
        }
        let many: String = (1..=65).map(|port| format!("http://a:{port},")).collect();
        assert_eq!(list("f", &many), Err("--f: more than 64 URLs".to_owned()));
    }
}
