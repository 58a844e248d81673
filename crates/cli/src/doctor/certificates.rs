//! The certificates of a replica: whether they can be read, whom they lead to, for whom they are and for how long.

use super::finding::Finding;
use super::start::Known;
use crate::address::{host, is_loopback};
use crate::face::FaceName;
use crate::serve::Settings;
use quorate_server::{PeerSecurity, PeerTls, PortTls, expiry_warnings};
use quorate_tls::{TlsError, is_valid_for};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

const CERTIFICATE: &str = "certificate";
const OPEN_PORT: &str = "open-port";

/// Looks at those of both ports.
pub(super) fn examine(settings: &Settings, known: &Known) -> Vec<Finding> {
    let dir = &settings.data_dir;
    let mut found = Vec::new();
    let fault = |error: TlsError| Finding::fault(CERTIFICATE, error.to_string());
    let client = match settings.security.client.look(dir) {
        Ok(port) => port.map(Arc::new),
        Err(error) => {
            found.push(fault(error));
            None
        }
    };
    found.extend(client.as_ref().and_then(|port| hosts(port, settings)));
    let peer = match settings.security.peer.look(dir) {
        Ok(peer) => {
            found.extend(open_to_members(settings, &peer));
            peer
        }
        Err(error) => {
            found.push(fault(error));
            PeerSecurity::default()
        }
    };
    if let Some(tls) = &peer.tls {
        found.push(with_itself(tls, &settings.own_address));
    }
    found.extend(open_to_clients(settings));
    if known.face == FaceName::Redis && settings.listen.is_http_open() {
        found.push(Finding::problem(
            OPEN_PORT,
            "whoever reaches the address for operators can change members and protocol, and fetch all data",
            "keep it on this machine, or say https:// in --listen-admin-urls and give --trusted-ca-file",
        ));
    }
    let warned = expiry_warnings(client, peer).into_iter();
    found.extend(warned.map(|text| Finding::fault(CERTIFICATE, text)));
    found
}

/// Whether the certificate for clients names where they reach this replica.
fn hosts(port: &PortTls, settings: &Settings) -> Option<Finding> {
    let file = port.expiry().file;
    let advertised = settings.client_hosts();
    let mut others = advertised.iter();
    let host = others.find(|host| !is_valid_for(&file.certificate, host))?;
    Some(Finding::problem(
        CERTIFICATE,
        format!("{file} is not valid for {host}, where clients reach this replica"),
        "have one made that names it, or advertise a name that it has (--advertise-client-urls)",
    ))
}

/// Has the certificate for replicas call itself, as another replica with the same authorities would.
fn with_itself(tls: &PeerTls, own_address: &str) -> Finding {
    let fails = |why: String| {
        Finding::problem(
            CERTIFICATE,
            format!("replicas with the same authorities would not take this one: {why}"),
            "look at --peer-cert-file, at --peer-trusted-ca-file, and at the name in --initial-cluster",
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let shaken = match runtime {
        Ok(runtime) => runtime.block_on(shake_hands(tls, host(own_address))),
        Err(error) => Err(error.into()),
    };
    match shaken {
        Ok(()) => Finding::fine(
            CERTIFICATE,
            format!("replicas take it as {}", host(own_address)),
        ),
        Err(error) => fails(error.to_string()),
    }
}

/// Both sides of a handshake, over this machine's loopback.
async fn shake_hands(tls: &PeerTls, host: &str) -> Result<(), TlsError> {
    let port = TcpListener::bind("127.0.0.1:0").await?;
    let dialled = TcpStream::connect(port.local_addr()?).await?;
    let (called, _) = port.accept().await?;
    let (taken, shown) = tokio::join!(
        tls.acceptor.accept(called),
        tls.connector.connect(dialled, host)
    );
    // Who refuses says why, and the other end hears no more than that.
    match (taken, shown) {
        (Ok(_), Ok(_)) => Ok(()),
        (Err(error @ TlsError::Certificate(_)), _) | (_, Err(error)) | (Err(error), _) => {
            Err(error)
        }
    }
}

/// What whoever reaches the port for replicas can do there.
fn open_to_members(settings: &Settings, peer: &PeerSecurity) -> Option<Finding> {
    let listened = &settings.listen.peers;
    let is_proven = peer.proof().is_some() || settings.security.peer.asks_for_certificates();
    if is_proven || listened.iter().all(|at| is_loopback(at)) {
        return None;
    }
    let text = format!(
        "whoever reaches {} can act as a member, and read and change everything",
        listened.join(", ")
    );
    let remedy = match peer.takes_plain {
        true => "leave out --peer-tls accept once all replicas have certificates or the secret",
        false => {
            "give replicas certificates (--peer-cert-file and the like), or a secret (--peer-secret-file)"
        }
    };
    Some(Finding::problem(OPEN_PORT, text, remedy))
}

/// What is heard of clients by others.
fn open_to_clients(settings: &Settings) -> Option<Finding> {
    let clients = settings.listen.clients.iter();
    let reached = clients.filter(|at| !at.starts_with("unix:") && !is_loopback(at));
    let reached: Vec<&str> = reached.map(String::as_str).collect();
    let is_open = settings.security.client.is_plain() && !reached.is_empty();
    is_open.then(|| {
        Finding::note(
            OPEN_PORT,
            format!("what clients say at {} is not encrypted", reached.join(", ")),
            "give a certificate (--cert-file, --key-file), and say https:// in --listen-client-urls",
        )
    })
}
