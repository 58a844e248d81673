//! TLS on the port for clients.

use quorate_tls::{Acceptor, Connection, Expiry, TlsError};
use std::sync::Arc;
use tokio::net::TcpStream;

/// What connections to a port for clients begin with.
#[derive(Debug)]
pub struct PortTls {
    acceptor: Acceptor,
    /// Whether the common name of a client's certificate is the user who asks.
    names_users: bool,
}

impl PortTls {
    /// With `names_users`, the common name of a client's certificate is the user who asks, as with etcd's
    /// `--client-cert-auth`.
    #[must_use]
    pub fn new(acceptor: Acceptor, names_users: bool) -> PortTls {
        PortTls {
            acceptor,
            names_users,
        }
    }

    /// Does the handshake with a client. It takes at most [`quorate_tls::HANDSHAKE_TIMEOUT`].
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn accept(&self, connection: TcpStream) -> Result<Connection, TlsError> {
        self.acceptor.accept(connection).await
    }

    /// The user in whose name a connection asks, if its certificate says so.
    #[must_use]
    pub fn user_of(&self, connection: &Connection) -> Option<Arc<str>> {
        let certificate = connection.certificate().filter(|_| self.names_users)?;
        let name = &certificate.common_name;
        (!name.is_empty()).then(|| Arc::from(&**name))
    }

    /// How long the certificate is valid.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.acceptor.expiry()
    }
}
