//! TLS and secrets between replicas.

use super::secret::{MAGIC, PeerSecret};
use quorate_tls::{
    Acceptor, Certificate, Connection, Connector, Expiry, TlsError, is_valid_for, speaks_tls,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpStream, lookup_host};

/// What connections between replicas begin with, at both ends.
#[derive(Clone, Debug, Default)]
pub struct PeerSecurity {
    /// The certificates of both ends, if connections are encrypted.
    pub tls: Option<Arc<PeerTls>>,
    /// What both ends prove to have, if there is one.
    pub secret: Option<Arc<PeerSecret>>,
    /// Whether connections of replicas that have none of both are taken, too, and replicas dialled that do not
    /// understand it: while a cluster is switched over, one replica after the other.
    pub takes_plain: bool,
}

/// TLS of a port for replicas.
#[derive(Debug)]
pub struct PeerTls {
    /// For those who call.
    pub acceptor: Acceptor,
    /// For those who are dialled.
    pub connector: Connector,
    /// Whether a caller's certificate must be of the address that it calls from, where it names hosts.
    pub checks_addresses: bool,
}

impl PeerSecurity {
    /// How others prove that they may act as a member, for people; `None` if anybody may.
    #[must_use]
    pub fn proof(&self) -> Option<&'static str> {
        if self.takes_plain {
            return None;
        }
        let by_certificate = self
            .tls
            .as_ref()
            .filter(|tls| tls.acceptor.asks_for_certificates());
        match (by_certificate, &self.secret) {
            (Some(_), _) => Some("certificate"),
            (None, Some(_)) => Some("secret"),
            (None, None) => None,
        }
    }

    /// What URLs of peer ports begin with: as long as plain text is taken, too, it is what all replicas are told.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        match self.tls.is_some() && !self.takes_plain {
            true => "https",
            false => "http",
        }
    }

    /// Whether connections begin with anything at all.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none() && self.secret.is_none()
    }

    /// Whether a replica that did not get through, for this reason, is dialled once more in plain text: it may be one
    /// that is switched over later.
    pub(crate) fn retries_in_plain(&self, error: &TlsError) -> bool {
        self.takes_plain && matches!(error, TlsError::Closed | TlsError::Refused(_))
    }

    /// What a connection to a peer begins with, which was dialled at `host`.
    pub(crate) async fn connect(&self, tcp: TcpStream, host: &str) -> Result<Connection, TlsError> {
        let mut connection = match &self.tls {
            None => tcp.into(),
            Some(tls) => tls.connector.connect(tcp, host).await?,
        };
        if let Some(secret) = &self.secret {
            secret.dial(&mut connection).await?;
        }
        Ok(connection)
    }

    /// What a connection from this address begins with. How long it may take is up to the caller.
    pub(crate) async fn accept(
        &self,
        tcp: TcpStream,
        from: SocketAddr,
    ) -> Result<Connection, TlsError> {
        let Some(tls) = &self.tls else {
            return self.accept_plain(tcp).await;
        };
        if self.takes_plain && !speaks_tls(&tcp).await? {
            return self.accept_plain(tcp).await;
        }
        let mut connection = tls.acceptor.accept(tcp).await?;
        if let Some(certificate) = connection.certificate().filter(|_| tls.checks_addresses) {
            check_address(certificate, from.ip()).await?;
        }
        if let Some(secret) = &self.secret {
            secret.accept(&mut connection).await?;
        }
        Ok(connection)
    }

    async fn accept_plain(&self, tcp: TcpStream) -> Result<Connection, TlsError> {
        let Some(secret) = &self.secret else {
            return Ok(tcp.into());
        };
        if self.takes_plain && !offers_proof(&tcp).await? {
            return Ok(tcp.into());
        }
        let mut connection = tcp.into();
        secret.accept(&mut connection).await?;
        Ok(connection)
    }

    /// How long the own certificate is valid, if there is one.
    pub(super) fn expiry(&self) -> Option<Expiry> {
        self.tls.as_ref().map(|tls| tls.acceptor.expiry())
    }
}

/// Whether a caller begins with the words of those who have a secret.
async fn offers_proof(tcp: &TcpStream) -> io::Result<bool> {
    let mut begin = [0; MAGIC.len()];
    let count = tcp.peek(&mut begin).await?;
    // They come in one piece: whoever sends fewer has to come again.
    Ok(count == MAGIC.len() && begin == MAGIC)
}

/// Whether a certificate is of the address from which it was shown, as etcd has it: by an address that it names, or a
/// name that leads there. Which hosts a wildcard stands for is found out by calling back.
async fn check_address(certificate: &Certificate, from: IpAddr) -> Result<(), TlsError> {
    if !certificate.has_names() || is_valid_for(certificate, &from.to_string()) {
        return Ok(());
    }
    for name in &certificate.dns_names {
        if name.starts_with("*.") {
            return Ok(());
        }
        if let Ok(mut found) = lookup_host((name.as_str(), 0)).await
            && found.any(|at| at.ip().to_canonical() == from.to_canonical())
        {
            return Ok(());
        }
    }
    Err(TlsError::Certificate(format!(
        "the caller's certificate ({certificate}) is good, but not of the address {from} that it calls from: name that \
         in it, or start this replica with --peer-skip-client-san-verification"
    )))
}
