//! The certificates of a replica: whether they can be read, whom they lead to, for whom they are and for how long.

use super::finding::Finding;
use crate::address::{host, is_loopback};
use crate::serve::Settings;
use quorate_server::{PeerTls, expiry_warnings};
use quorate_tls::{TlsError, is_valid_for};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

/// Looks at those of both ports.
pub(super) fn examine(settings: &Settings) -> Vec<Finding> {
    let dir = &settings.data_dir;
    let mut found = Vec::new();
    let mut fault = |error: TlsError| found.push(Finding::fault("certificate", error.to_string()));
    let client = match settings.security.client.makes_its_own() {
        true => None,
        false => match settings.security.client.look(dir) {
            Ok(port) => port.map(Arc::new),
            Err(error) => {
                fault(error);
                None
            }
        },
    };
    let peer = match settings.security.peer.makes_its_own() {
        true => None,
        false => settings.security.peer.open(dir).map_err(fault).ok(),
    };
    let peer = peer.unwrap_or_default();
    if let Some(tls) = &peer.tls {
        found.push(with_itself(tls, &settings.own_address));
    }
    if let Some(port) = &client {
        let expiry = port.expiry();
        let certificate = &expiry.file.certificate;
        let advertised = settings.client_hosts();
        let mut others = advertised.iter();
        if let Some(host) = others.find(|host| !is_valid_for(certificate, host)) {
            found.push(Finding::problem(
                "certificate",
                format!("{} is not valid for {host}, where clients reach this replica", expiry.file),
                "have one made that names it, or advertise a name that it has (--advertise-client-urls)",
            ));
        }
    }
    found.extend(open_ports(settings, peer.proof().is_none()));
    let warned = expiry_warnings(client, peer).into_iter();
    found.extend(warned.map(|text| Finding::fault("certificate", text)));
    found
}

/// Has the certificate for replicas call itself, as another replica with the same authorities would.
fn with_itself(tls: &PeerTls, own_address: &str) -> Finding {
    let kind = "certificate";
    let fails = |why: String| {
        Finding::problem(
            kind,
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
        Ok(()) => Finding::fine(kind, format!("replicas take it as {}", host(own_address))),
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

/// What whoever reaches a port can do there.
fn open_ports(settings: &Settings, has_no_proof: bool) -> Vec<Finding> {
    let is_open = |addresses: &[String]| !addresses.iter().all(|at| is_loopback(at));
    let mut found = Vec::new();
    if has_no_proof && is_open(&settings.listen.peers) {
        found.push(Finding::problem(
            "open-port",
            format!(
                "whoever reaches {} can act as a member, and read and change everything",
                settings.listen.peers.join(", ")
            ),
            "give replicas certificates (--peer-cert-file and the like), or a secret (--peer-secret-file)",
        ));
    }
    let clients = settings.listen.clients.iter();
    let reached: Vec<String> = clients
        .filter(|at| !at.starts_with("unix:"))
        .cloned()
        .collect();
    if settings.security.client.is_plain() && is_open(&reached) {
        found.push(Finding::note(
            "open-port",
            format!("what clients say at {} is not encrypted", reached.join(", ")),
            "give a certificate (--cert-file, --key-file), and say https:// in --listen-client-urls",
        ));
    }
    found
}
