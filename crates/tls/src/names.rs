//! The names in certificates, held against hosts.

use crate::certificate::Certificate;
use std::net::IpAddr;

/// The names that a port lets in, of those whose certificate is good. Empty lists let in everybody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowedNames {
    /// Common names, of which the certificate must have one.
    pub common_names: Vec<String>,
    /// Hosts, for one of which the certificate must be valid.
    pub hosts: Vec<String>,
}

impl AllowedNames {
    /// Whether the owner of a certificate is let in.
    pub(crate) fn allow(&self, certificate: &Certificate) -> bool {
        let is_named = |name: &String| *name == certificate.common_name;
        let is_host = |host: &String| is_valid_for(certificate, host);
        (self.common_names.is_empty() || self.common_names.iter().any(is_named))
            && (self.hosts.is_empty() || self.hosts.iter().any(is_host))
    }

    /// The names in words, for a message.
    pub(crate) fn text(&self) -> String {
        let names = self.common_names.iter().map(|name| format!("CN={name}"));
        let all: Vec<String> = names.chain(self.hosts.iter().cloned()).collect();
        all.join(", ")
    }
}

/// Whether a certificate names a host: an address or a name, of which `*` stands for the first part.
#[must_use]
pub fn is_valid_for(certificate: &Certificate, host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        let mut named = certificate.addresses.iter();
        return named.any(|named| named.to_canonical() == address.to_canonical());
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let mut named = certificate.dns_names.iter();
    named.any(|name| covers(name, host))
}

fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => pattern.eq_ignore_ascii_case(host),
        Some(domain) => host
            .split_once('.')
            .is_some_and(|(first, rest)| !first.is_empty() && domain.eq_ignore_ascii_case(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Certificate {
        Certificate {
            common_name: "member".to_owned(),
            dns_names: vec!["db.example".to_owned(), "*.cluster.local".to_owned()],
            addresses: vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            ..Certificate::default()
        }
    }

    #[test]
    fn a_host_is_named_by_its_name_its_address_or_a_wildcard_of_one_part() {
        for host in [
            "db.example",
            "DB.example.",
            "a.cluster.local",
            "10.0.0.1",
            "[::1]",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_valid_for(&certificate(), host), "{host}");
        }
        for host in [
            "example",
            "cluster.local",
            "a.b.cluster.local",
            ".cluster.local",
            "10.0.0.2",
            "",
        ] {
            assert!(!is_valid_for(&certificate(), host), "{host}");
        }
    }

    #[test]
    fn whom_a_port_lets_in_is_named_in_every_list_that_has_names() {
        let allow = |common_names: &[&str], hosts: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let allowed = AllowedNames {
                common_names: list(common_names),
                hosts: list(hosts),
            };
            allowed.allow(&certificate())
        };
        assert!(allow(&[], &[]) && allow(&["x", "member"], &[]) && allow(&[], &["x", "10.0.0.1"]));
        assert!(!allow(&["x"], &[]) && !allow(&[], &["x"]) && !allow(&["member"], &["x"]));
    }
}
