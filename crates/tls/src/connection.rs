//! A connection, encrypted or not.

use crate::certificate::Certificate;
use crate::stream::TlsStream;
use bytes::BufMut;
use rustls::Connection as Session;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that are read at once from an encrypted connection: a record has no more.
const READ_BYTES_MAX: usize = 16 << 10;

/// A connection whose bytes may be encrypted on the way. A plain one costs nothing more than its socket.
#[derive(Debug)]
pub enum Connection {
    /// Bytes go as they are.
    Plain(TcpStream),
    /// Bytes are encrypted.
    Tls(TlsConnection),
}

/// A connection that is encrypted, after its handshake.
#[derive(Debug)]
pub struct TlsConnection(pub(crate) Box<TlsStream>);

/// A connection between two runtimes.
#[derive(Debug)]
pub enum DetachedConnection {
    /// Bytes go as they are.
    Plain(std::net::TcpStream),
    /// Bytes are encrypted.
    Tls(std::net::TcpStream, Box<Session>, Option<Certificate>),
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Connection {
        Connection::Plain(stream)
    }
}

impl Connection {
    pub(crate) fn encrypted(stream: TlsStream) -> Connection {
        Connection::Tls(TlsConnection(Box::new(stream)))
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Connection::Plain(tcp) => tcp,
            Connection::Tls(tls) => tls.0.tcp(),
        }
    }

    /// Whether bytes are encrypted on the way.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Connection::Tls(_))
    }

    /// What the other side has shown of itself: `None` unless it had to show a certificate, which was verified.
    #[must_use]
    pub fn certificate(&self) -> Option<&Certificate> {
        match self {
            Connection::Plain(_) => None,
            Connection::Tls(tls) => tls.0.certificate(),
        }
    }

    /// What both ends know of an encrypted connection and nobody else does (RFC 5705); nothing of a plain one.
    ///
    /// # Errors
    /// A connection that is encrypted in a way that has no such thing.
    pub fn channel_name(&self) -> io::Result<Vec<u8>> {
        match self {
            Connection::Plain(_) => Ok(Vec::new()),
            Connection::Tls(tls) => tls.0.channel_name(),
        }
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp().peer_addr()
    }

    /// Waits until a read may bring something, or the end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Connection::Tls(tls) if tls.0.may_have_more() => Ok(()),
            _ => self.tcp().readable().await,
        }
    }

    /// Waits until the socket takes something.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn writable(&self) -> io::Result<()> {
        self.tcp().writable().await
    }

    /// Reads what is there; 0 at the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing is there; those of the operating system and of TLS.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(tcp) => tcp.try_read(buffer),
            Connection::Tls(tls) => tls.0.try_read(buffer),
        }
    }

    /// Reads what is there to the end of `buffer`; 0 at the end.
    ///
    /// # Errors
    /// See [`Connection::try_read`].
    pub fn try_read_buf(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        match self {
            Connection::Plain(tcp) => tcp.try_read_buf(buffer),
            Connection::Tls(tls) => {
                let mut bytes = [0; READ_BYTES_MAX];
                let room = buffer.remaining_mut().min(bytes.len());
                let count = tls.0.try_read(&mut bytes[..room])?;
                buffer.put_slice(&bytes[..count]);
                Ok(count)
            }
        }
    }

    /// Writes as much as there is room for. What an encrypted connection has taken may still wait:
    /// [`Connection::has_unsent`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; those of the operating system and of TLS.
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Connection::Plain(tcp) => tcp.try_write_vectored(pieces),
            Connection::Tls(tls) => tls.0.try_write_vectored(pieces),
        }
    }

    /// Whether bytes that were taken wait for the socket.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        match self {
            Connection::Plain(_) => false,
            Connection::Tls(tls) => tls.0.has_unsent(),
        }
    }

    /// Gives the socket bytes that were taken before and wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if some still do; those of the operating system.
    pub fn try_flush(&self) -> io::Result<()> {
        match self {
            Connection::Plain(_) => Ok(()),
            Connection::Tls(tls) => tls.0.try_flush(),
        }
    }

    /// Takes the connection out of its runtime.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn detach(self) -> io::Result<DetachedConnection> {
        match self {
            Connection::Plain(tcp) => Ok(DetachedConnection::Plain(tcp.into_std()?)),
            Connection::Tls(tls) => {
                let (tcp, session, certificate) = tls.0.into_parts();
                let tcp = tcp.into_std()?;
                Ok(DetachedConnection::Tls(tcp, Box::new(session), certificate))
            }
        }
    }

    /// Brings a connection into the present runtime.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn attach(detached: DetachedConnection) -> io::Result<Connection> {
        match detached {
            DetachedConnection::Plain(tcp) => Ok(Connection::Plain(TcpStream::from_std(tcp)?)),
            DetachedConnection::Tls(tcp, session, certificate) => {
                let tcp = TcpStream::from_std(tcp)?;
                Ok(Connection::encrypted(TlsStream::new(
                    tcp,
                    *session,
                    certificate,
                )))
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tls = match &mut *self {
            Connection::Plain(tcp) => return Pin::new(tcp).poll_read(context, buffer),
            Connection::Tls(tls) => &tls.0,
        };
        let room = buffer.remaining().min(READ_BYTES_MAX);
        loop {
            match tls.try_read(buffer.initialize_unfilled_to(room)) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(tls.tcp().poll_read_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Connection::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Connection::Tls(_) => self.poll_write_vectored(context, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tls = match &mut *self {
            Connection::Plain(tcp) => return Pin::new(tcp).poll_write_vectored(context, pieces),
            Connection::Tls(tls) => &tls.0,
        };
        loop {
            match tls.try_write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(tls.tcp().poll_write_ready(context))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &*self {
            Connection::Plain(_) => Poll::Ready(Ok(())),
            Connection::Tls(tls) => tls.0.poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tls = match &mut *self {
            Connection::Plain(tcp) => return Pin::new(tcp).poll_shutdown(context),
            Connection::Tls(tls) => tls,
        };
        tls.0.close();
        ready!(tls.0.poll_flush(context))?;
        tls.0.poll_shutdown_socket(context)
    }
}
