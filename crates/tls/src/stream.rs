//! An encrypted stream over a TCP connection, for those who wait and for those who only try.

use crate::certificate::Certificate;
use rustls::Connection as Session;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

/// Clear bytes that wait to be encrypted and written, at most.
const SENT_AHEAD_BYTES_MAX: usize = 256 << 10;

/// The label of what names a connection, and its length.
const CHANNEL_LABEL: &[u8] = b"EXPORTER-quorate-peer";
const CHANNEL_BYTES: usize = 32;

/// A TCP connection on which a handshake was done.
#[derive(Debug)]
pub(crate) struct TlsStream {
    tcp: TcpStream,
    session: Mutex<Session>,
    /// Whether decrypted bytes may wait to be read, so that the socket need not be readable.
    may_have_more: AtomicBool,
    /// What the other side has shown of itself, if it was asked and verified.
    certificate: Option<Certificate>,
}

/// The socket as the library wants it: blocking calls that fail where they would block.
pub(crate) struct Socket<'a>(pub(crate) &'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what is encrypted until nothing is left. Fails where it would block.
pub(crate) fn push_out(session: &mut Session, tcp: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        if session.write_tls(&mut Socket(tcp))? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

impl TlsStream {
    pub(crate) fn new(
        tcp: TcpStream,
        mut session: Session,
        certificate: Option<Certificate>,
    ) -> Self {
        session.set_buffer_limit(Some(SENT_AHEAD_BYTES_MAX));
        TlsStream {
            tcp,
            session: Mutex::new(session),
            may_have_more: AtomicBool::new(true),
            certificate,
        }
    }

    /// Takes the stream apart, for another runtime.
    pub(crate) fn into_parts(self) -> (TcpStream, Session, Option<Certificate>) {
        let session = self.session.into_inner();
        (
            self.tcp,
            session.unwrap_or_else(PoisonError::into_inner),
            self.certificate,
        )
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes to be sent, as many as there is room for. They are on their way only once [`TlsStream::try_flush`]
    /// says so.
    pub(crate) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut session = self.session();
        push_out(&mut session, &self.tcp)?;
        let taken = session.writer().write_vectored(pieces)?;
        match push_out(&mut session, &self.tcp) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Gives the socket what it did not take before.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        push_out(&mut self.session(), &self.tcp)
    }

    /// Whether bytes wait that the socket did not take.
    pub(crate) fn has_unsent(&self) -> bool {
        self.session().wants_write()
    }

    /// Whether a read may bring something although the socket has nothing.
    pub(crate) fn may_have_more(&self) -> bool {
        self.may_have_more.load(Ordering::Relaxed)
    }

    /// Reads bytes that came, after decrypting them; 0 at the end.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut session = self.session();
        let read = read(&mut session, &self.tcp, buffer);
        let may_have_more = matches!(read, Ok(count) if count > 0);
        self.may_have_more.store(may_have_more, Ordering::Relaxed);
        read
    }

    /// What names this connection, for both ends alone.
    pub(crate) fn channel_name(&self) -> io::Result<Vec<u8>> {
        let name =
            self.session()
                .export_keying_material(vec![0; CHANNEL_BYTES], CHANNEL_LABEL, None);
        name.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Tells the other side that nothing more comes.
    pub(crate) fn close(&self) {
        self.session().send_close_notify();
    }

    /// Closes the sending half of the socket.
    pub(crate) fn poll_shutdown_socket(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }

    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.try_flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.tcp.poll_write_ready(context))?;
                }
                flushed => return Poll::Ready(flushed),
            }
        }
    }
}

fn read(session: &mut Session, tcp: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    if buffer.is_empty() {
        return Ok(0);
    }
    loop {
        match session.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // What is sent over these streams says itself where it ends.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        session.read_tls(&mut Socket(tcp))?;
        let processed = session.process_new_packets();
        if session.wants_write() {
            // An alert, or an answer to new keys: what the socket does not take goes with the next write.
            let _ = push_out(session, tcp);
        }
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
}
