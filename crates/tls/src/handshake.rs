//! The handshake of TLS, on a socket that does not block.

use crate::certificate::Certificate;
use crate::connection::Connection;
use crate::describe;
use crate::error::TlsError;
use crate::source::CertificateFile;
use crate::stream::{Socket, TlsStream, push_out};
use rustls::Connection as Session;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a handshake may take: etcd itself has had none of that (CVE-2026-73500).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Does a handshake. `refused` says what was wrong with the other side's certificate, if that was looked at; `own` is
/// the certificate that it is shown.
pub(crate) async fn shake_hands(
    tcp: TcpStream,
    mut session: Session,
    refused: impl Fn() -> Option<String>,
    own: Option<&CertificateFile>,
) -> Result<Connection, TlsError> {
    loop {
        match push_out(&mut session, &tcp) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tcp.writable().await?;
                continue;
            }
            Err(error) => return Err(lost(error)),
        }
        if !session.is_handshaking() {
            break;
        }
        match session.read_tls(&mut Socket(&tcp)) {
            Ok(0) => return Err(TlsError::Closed),
            Ok(_) => {
                if let Err(error) = session.process_new_packets() {
                    // The other side is told why.
                    let _ = push_out(&mut session, &tcp);
                    let refused = refused().map(TlsError::Certificate);
                    return Err(refused.unwrap_or_else(|| describe::failure(&error, own)));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tcp.readable().await?,
            Err(error) => return Err(lost(error)),
        }
    }
    let first = session.peer_certificates().and_then(|shown| shown.first());
    let certificate = first.and_then(|bytes| Certificate::read(bytes));
    Ok(Connection::encrypted(TlsStream::new(
        tcp,
        session,
        certificate,
    )))
}

fn lost(error: io::Error) -> TlsError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => TlsError::Closed,
        _ => TlsError::Io(error),
    }
}
