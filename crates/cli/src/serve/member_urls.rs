//! The members of a cluster and their URLs, as options list them.

use crate::address::{host_port, is_https, is_unspecified, places};
use crate::security::PortUrls;
use quorate_core::ReplicaId;
use quorate_server::MemberInfo;
use std::collections::BTreeMap;

/// The longest text that members tell each other of the URLs of one.
const CLIENT_URLS_BYTES_MAX: usize = 512;

/// The number in the name that a replica has if it is given none.
pub(super) fn number_of_name(name: &str) -> Option<u16> {
    name.strip_prefix("replica-")?.parse().ok()
}

/// Reads `1=URL,2=URL`. A replica may be called by its name as well, as `etcdctl member add` does: this one's, or a
/// name that has the number in it.
pub(super) fn url_list(
    flag: &str,
    list: &str,
    own: Option<(&str, ReplicaId)>,
) -> Result<BTreeMap<ReplicaId, String>, String> {
    let number = |called: &str| match own {
        Some((name, id)) if name == called => Some(id.0),
        _ => called.parse().ok().or_else(|| number_of_name(called)),
    };
    let mut urls = BTreeMap::new();
    for item in list.split(',').filter(|item| !item.is_empty()) {
        let (id, url) = item
            .split_once('=')
            .and_then(|(id, url)| Some((number(id).filter(|id| *id > 0)?, url)))
            .ok_or_else(|| {
                format!(
                    "--{flag}: {item:?} is not of the form 1=http://host:port: other replicas than this one are \
                     called by their numbers, which quorate cluster status shows"
                )
            })?;
        host_port(flag, url)?;
        if urls.insert(ReplicaId(id), url.to_owned()).is_some() {
            return Err(format!("--{flag} lists replica {id} twice"));
        }
    }
    let mut seen: Vec<_> = urls.values().collect();
    seen.sort();
    match seen.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("--{flag} gives {} to two replicas", pair[0])),
        None => Ok(urls),
    }
}

/// The members as this replica is told of them.
pub(super) fn members(
    me: ReplicaId,
    name: &str,
    peer_urls: &BTreeMap<ReplicaId, String>,
    advertised: &str,
) -> Result<Vec<MemberInfo>, String> {
    let flag = "advertise-client-urls";
    let mut client_urls = match advertised.contains('=') {
        true => url_list(flag, advertised, Some((name, me)))?,
        // One member may have several URLs for clients: they are one text with commas.
        false => places(flag, advertised).map(|_| [(me, advertised.to_owned())].into())?,
    };
    if client_urls
        .values()
        .any(|urls| urls.len() > CLIENT_URLS_BYTES_MAX)
    {
        return Err(format!("--{flag}: more than {CLIENT_URLS_BYTES_MAX} bytes"));
    }
    let members = peer_urls
        .iter()
        .map(|(id, peer_url)| {
            let own_or_numbered = match *id == me {
                true => name.to_owned(),
                false => format!("replica-{id}"),
            };
            MemberInfo {
                client_url: client_urls.remove(id).unwrap_or_default(),
                ..MemberInfo::told(*id, own_or_numbered, peer_url.clone())
            }
        })
        .collect();
    match client_urls.first_key_value() {
        Some((id, _)) => Err(format!(
            "--{flag} names replica {id}, --initial-cluster does not"
        )),
        None => Ok(members),
    }
}

/// What says where TLS is spoken.
pub(super) fn port_urls<'a>(
    client: &'a str,
    advertised: &'a str,
    peer: &'a str,
    own: &'a str,
) -> PortUrls<'a> {
    PortUrls {
        client,
        advertised,
        peer,
        own,
    }
}

/// The first URL of a list.
pub(super) fn first(urls: &str) -> &str {
    urls.split(',').next().unwrap_or(urls)
}

/// The URL that clients are told, where none is given: the one listened at. One that stands for every address of the
/// machine gives way to the host at which the other replicas reach it.
pub(super) fn reachable(client_url: &str, own_peer_url: &str) -> Result<String, String> {
    if client_url.starts_with("unix:") {
        return Ok(client_url.to_owned());
    }
    let listened = host_port("listen-client-urls", client_url)?;
    if !is_unspecified(&listened) {
        return Ok(client_url.to_owned());
    }
    let peer = host_port("initial-cluster", own_peer_url)?;
    match (peer.rsplit_once(':'), listened.rsplit_once(':')) {
        (Some((host, _)), Some((_, port))) if !is_unspecified(&peer) => {
            let scheme = if is_https(client_url) {
                "https"
            } else {
                "http"
            };
            Ok(format!("{scheme}://{host}:{port}"))
        }
        _ => Err(format!(
            "--listen-client-urls {client_url:?} listens at every address: say with --advertise-client-urls at which \
             of them clients reach this replica"
        )),
    }
}

/// The addresses of the other replicas.
pub(super) fn peer_addresses(
    me: ReplicaId,
    urls: &BTreeMap<ReplicaId, String>,
) -> Result<Vec<(ReplicaId, String)>, String> {
    let others = urls.iter().filter(|(id, _)| **id != me);
    others
        .map(|(id, url)| Ok((*id, host_port("initial-cluster", url)?)))
        .collect()
}
