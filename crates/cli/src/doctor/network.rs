//! The ports that a replica is to listen at, and the addresses of the others.

use super::finding::Finding;
use crate::address::is_unspecified;
use crate::modes::PeerTransport;
use crate::serve::Settings;
use quorate_server::bind;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// How long a connection to another replica may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// Whether every port can be had, beside all others.
pub(super) fn ports(settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut opened = Vec::new();
    for (flag, address) in settings.listen.all() {
        let bound = match address.strip_prefix("unix:") {
            None => bind(address).map(|port| opened.push(port)),
            // A socket that is bound is in the file system from then on.
            Some(path) => folder_of(path),
        };
        found.push(match bound {
            Ok(()) => Finding::fine("port", format!("{address} is free (--{flag})")),
            Err(error) => taken(flag, address, &error),
        });
    }
    // Datagrams come beside the connections of the first address.
    if settings.peer_transport != PeerTransport::Tcp
        && let Some(address) = settings.listen.peers.first()
        && let Err(error) = UdpSocket::bind(address)
    {
        found.push(taken("listen-peer-urls", address, &error));
    }
    found
}

fn folder_of(path: &str) -> io::Result<()> {
    let folder = std::path::Path::new(path).parent();
    match folder.is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir()) {
        true => Ok(()),
        false => Err(ErrorKind::NotFound.into()),
    }
}

/// Why a port cannot be had.
fn taken(flag: &str, address: &str, error: &io::Error) -> Finding {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => {
            format!("end what listens there (`ss -ltnp`), or give another --{flag}")
        }
        ErrorKind::PermissionDenied => format!(
            "ports below 1024 take a right (CAP_NET_BIND_SERVICE): give it, or another --{flag}"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "this machine has no such address (`ip address`): give one of its own, or 0.0.0.0 for all, in --{flag}"
        ),
        _ => format!("give another --{flag}"),
    };
    Finding::problem("port", format!("{address}: {error}"), &remedy)
}

/// Whether the others' addresses mean something and lead somewhere, and whether this replica's is its own.
pub(super) fn others(settings: &Settings) -> Vec<Finding> {
    let mut found = vec![own(&settings.own_address)];
    std::thread::scope(|scope| {
        let asked: Vec<_> = (settings.peer_addresses.iter())
            .map(|(id, address)| scope.spawn(move || other(id.0, address)))
            .collect();
        let heard = asked.into_iter().filter_map(|asked| asked.join().ok());
        found.extend(heard);
    });
    found
}

/// The address at which the others reach this replica.
fn own(address: &str) -> Finding {
    let kind = "address";
    let resolved = match resolve(address) {
        Ok(resolved) => resolved,
        Err(finding) => return finding,
    };
    if is_unspecified(address) {
        return Finding::problem(
            kind,
            format!(
                "{address} stands for every address of this machine: the others cannot call it"
            ),
            "name one address of this machine in --initial-cluster",
        );
    }
    let mut local = resolved.iter();
    match local.any(|at| TcpListener::bind((at.ip(), 0)).is_ok()) {
        true => Finding::fine(kind, format!("{address} is this machine's own")),
        false => Finding::note(
            kind,
            format!("{address}, where the others call this replica, is no address of this machine"),
            "that is well behind a translator of addresses; otherwise mend --initial-cluster",
        ),
    }
}

fn resolve(address: &str) -> Result<Vec<SocketAddr>, Finding> {
    let resolved = address.to_socket_addrs();
    resolved.map(Iterator::collect).map_err(|error| {
        Finding::problem(
            "address",
            format!("{address}: {error}"),
            "mend the name in --initial-cluster, or add it to the name service or to /etc/hosts",
        )
    })
}

/// The address of another replica.
fn other(id: u16, address: &str) -> Finding {
    let resolved = match resolve(address) {
        Ok(resolved) => resolved,
        Err(finding) => return finding.at(id),
    };
    let mut why = None;
    for at in &resolved {
        let began = Instant::now();
        match TcpStream::connect_timeout(at, CONNECT_MAX) {
            Ok(_) => {
                let text = format!(
                    "{address} takes connections, after {} us",
                    began.elapsed().as_micros()
                );
                return Finding::fine("peer", text).at(id);
            }
            Err(error) => why = Some(error),
        }
    }
    silent(address, why).at(id)
}

/// Why nobody answers there.
fn silent(address: &str, why: Option<io::Error>) -> Finding {
    let Some(error) = why else {
        return Finding::problem(
            "peer",
            format!("{address} has no address"),
            "mend the name in --initial-cluster",
        );
    };
    let remedy = match error.kind() {
        ErrorKind::ConnectionRefused => {
            "nobody listens there: that is as it should be if it is not started yet"
        }
        ErrorKind::TimedOut => {
            "packets are lost on the way: look for a firewall, and whether that machine runs"
        }
        _ => "look at the network between both, and at that machine",
    };
    Finding::note("peer", format!("{address}: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;
    use quorate_server::Port;

    #[test]
    fn each_kind_of_refusal_has_its_remedy() {
        let remedy = |kind: ErrorKind| taken("listen-peer-urls", "h:1", &kind.into()).remedy;
        assert!(remedy(ErrorKind::AddrInUse).unwrap().contains("ss -ltnp"));
        let privileged = remedy(ErrorKind::PermissionDenied).unwrap();
        assert!(privileged.contains("CAP_NET_BIND_SERVICE"));
        let foreign = remedy(ErrorKind::AddrNotAvailable).unwrap();
        assert!(foreign.contains("0.0.0.0") && foreign.contains("--listen-peer-urls"));
        let lost = silent("h:1", Some(ErrorKind::TimedOut.into()));
        assert!(lost.remedy.unwrap().contains("firewall"));
    }

    #[test]
    fn addresses_are_looked_up_and_called() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        assert_eq!(other(2, &address).verdict, Verdict::Fine);
        drop(port);
        let refused = other(2, &address);
        assert_eq!(
            (refused.verdict, refused.replica_id),
            (Verdict::Note, Some(2))
        );
        assert_eq!(other(3, "no-such-host.invalid:1").verdict, Verdict::Problem);
        assert_eq!(own("127.0.0.1:1").verdict, Verdict::Fine);
        assert_eq!(own("0.0.0.0:1").verdict, Verdict::Problem);
        // An address that is kept for documents (RFC 5737).
        assert_eq!(own("192.0.2.1:1").verdict, Verdict::Note);
    }

    #[test]
    fn a_socket_needs_its_folder() {
        assert!(folder_of("socket").is_ok());
        assert!(folder_of("/no/such/folder/socket").is_err());
        assert!(Port::bind("unix:/no/such/folder/socket").is_err());
    }
}
