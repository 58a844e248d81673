//! The members that a domain's SRV records list.

use super::dns::{self, Service};
use super::host::is_same_place;
use super::roster::Roster;
use super::urls::{Scheme, Url};
use std::collections::BTreeMap;

/// Where the records are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Domain {
    pub(super) name: String,
    /// What is appended to the names of services, behind a dash.
    pub(super) suffix: String,
}

/// The services that members are listed under, those with TLS first.
const SERVICES: [(Scheme, &str); 2] = [
    (Scheme::Https, "etcd-server-ssl"),
    (Scheme::Http, "etcd-server"),
];

impl Domain {
    /// The members by name; only the name of this one, which is found by the URLs that it advertises, is known.
    ///
    /// # Errors
    /// That there are no records, or none of this member.
    pub(super) fn roster(&self, own: &str, advertised: &[Url]) -> Result<Roster, String> {
        let servers = dns::servers();
        self.roster_by(own, advertised, |name| dns::services(name, &servers))
    }

    fn roster_by(
        &self,
        own: &str,
        advertised: &[Url],
        look_up: impl Fn(&str) -> Result<Vec<Service>, String>,
    ) -> Result<Roster, String> {
        let mut members: BTreeMap<String, Vec<Url>> = BTreeMap::new();
        let mut whys = Vec::new();
        let mut places = Vec::new();
        for (scheme, service) in SERVICES {
            let found = look_up(&self.record(service)).unwrap_or_else(|why| {
                whys.push(why);
                Vec::new()
            });
            for Service { host, port } in found {
                let place = format!("{host}:{port}");
                let mut mine = advertised.iter();
                let mine = mine.find(|url| is_same_place(&url.place, &place));
                if let Some(url) = mine.filter(|url| url.scheme != scheme) {
                    let is_at = Url { scheme, place };
                    whys.push(format!(
                        "the records have {is_at}, and this member is at {url}"
                    ));
                    continue;
                }
                if places.contains(&place) {
                    continue;
                }
                places.push(place.clone());
                let name = mine.map_or_else(|| place.clone(), |_| own.to_owned());
                members.entry(name).or_default().push(Url { scheme, place });
            }
        }
        let why = || match whys.is_empty() {
            true => String::new(),
            false => format!(": {}", whys.join("; ")),
        };
        if members.is_empty() {
            return Err(format!("--discovery-srv {}{}", self.name, why()));
        }
        if !members.contains_key(own) {
            return Err(format!(
                "cannot find local etcd member {own:?} in SRV records of {}{}",
                self.name,
                why()
            ));
        }
        Ok(Roster::by_url(members))
    }

    /// The name of a service's records.
    fn record(&self, service: &str) -> String {
        match self.suffix.as_str() {
            "" => format!("_{service}._tcp.{}", self.name),
            suffix => format!("_{service}-{suffix}._tcp.{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::roster::by_number;
    use super::super::urls::list;
    use super::*;

    fn domain(suffix: &str) -> Domain {
        Domain {
            name: "example.test".to_owned(),
            suffix: suffix.to_owned(),
        }
    }

    /// Looks up three services without TLS, and this one with it.
    fn look_up(secure: &[u16]) -> impl Fn(&str) -> Result<Vec<Service>, String> {
        let at = |port: u16| Service {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let secure: Vec<Service> = secure.iter().map(|port| at(*port)).collect();
        move |name: &str| match name {
            "_etcd-server._tcp.example.test" => Ok([3, 1, 2].map(at).into()),
            "_etcd-server-ssl._tcp.example.test" if !secure.is_empty() => Ok(secure.clone()),
            _ => Err(format!("no {name}")),
        }
    }

    fn urls(text: &str) -> Vec<Url> {
        list("f", text).unwrap()
    }

    #[test]
    fn every_member_finds_itself_and_gives_the_others_the_same_numbers() {
        for port in 1..=3 {
            let own = urls(&format!("http://localhost:{port},http://127.0.0.1:{port}"));
            let roster = domain("").roster_by("me", &own, look_up(&[])).unwrap();
            let members = roster.numbered();
            let list = "1=http://127.0.0.1:1,2=http://127.0.0.1:2,3=http://127.0.0.1:3";
            assert_eq!(by_number(&members), list);
            let mut mine = members.iter().filter(|member| member.name == "me");
            assert_eq!(mine.next().map(|member| member.number), Some(port));
        }
    }

    #[test]
    fn a_member_with_tls_goes_before_the_one_without_at_its_place() {
        let own = urls("https://127.0.0.1:1");
        let roster = domain("").roster_by("me", &own, look_up(&[1])).unwrap();
        let list = "1=http://127.0.0.1:2,2=http://127.0.0.1:3,3=https://127.0.0.1:1";
        assert_eq!(by_number(&roster.numbered()), list);
    }

    #[test]
    fn what_is_missing_is_named() {
        let own = urls("http://127.0.0.1:9");
        let why = domain("").roster_by("me", &own, look_up(&[]));
        let said = "cannot find local etcd member \"me\" in SRV records of example.test";
        assert!(why.unwrap_err().starts_with(said));
        let why = domain("blue").roster_by("me", &own, look_up(&[]));
        let why = why.unwrap_err();
        assert!(
            why.contains("no _etcd-server-ssl-blue._tcp.example.test; no _etcd"),
            "{why}"
        );
        let own = urls("https://127.0.0.1:1");
        let why = domain("").roster_by("me", &own, look_up(&[])).unwrap_err();
        assert!(
            why.contains("the records have http://127.0.0.1:1, and this member"),
            "{why}"
        );
    }
}
