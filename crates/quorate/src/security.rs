//! What connections to members begin with.

use crate::error::StartError;
use crate::options::Tls;
use quorate_server::{PeerSecret, PeerSecurity, PeerTls};
use quorate_tls::{Acceptor, AllowedNames, ClientFiles, Connector, Parameters, ServerFiles};
use std::path::Path;
use std::sync::Arc;

/// Reads the certificates and the secret that a builder was told of.
pub(crate) fn peer_security(
    tls: Option<&Tls>,
    secret: Option<&Path>,
) -> Result<PeerSecurity, StartError> {
    let tls = tls.map(peer_tls).transpose();
    let secret = secret.map(PeerSecret::read).transpose();
    Ok(PeerSecurity {
        tls: tls.map_err(StartError::new)?.map(Arc::new),
        secret: secret.map_err(StartError::new)?.map(Arc::new),
        takes_plain: false,
    })
}

fn peer_tls(tls: &Tls) -> Result<PeerTls, quorate_tls::TlsError> {
    Ok(PeerTls {
        acceptor: Acceptor::new(ServerFiles {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            authorities: Some(tls.authorities.clone()),
            revoked: None,
            allowed: AllowedNames::default(),
            parameters: Parameters::default(),
            languages: &[],
        })?,
        connector: Connector::new(ClientFiles {
            authorities: Some(tls.authorities.clone()),
            certificate: Some((tls.certificate.clone(), tls.key.clone())),
            ..ClientFiles::default()
        })?,
        checks_addresses: true,
    })
}
