//! Bound ports: numbers of TCP, and sockets in the file system.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// What the address of a socket in the file system begins with; a path follows.
const UNIX: &str = "unix:";
/// Connections that the kernel keeps until they are accepted, as far as the system allows; the library asks for 128.
const CONNECTIONS_WAITING_MAX: i32 = 4096;
/// Who calls at a socket in the file system is on this machine, and has no address.
const CALLER_HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A bound port, before there is an event loop.
#[derive(Debug)]
pub enum Port {
    /// A number of TCP.
    Tcp(std::net::TcpListener),
    /// A socket in the file system.
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

impl Port {
    /// Binds a port at `host:port` or `unix:PATH`, so that one in use is found before anything else begins.
    ///
    /// # Errors
    /// Those of the operating system. A socket that nobody listens at any more gives way.
    pub fn bind(address: &str) -> io::Result<Port> {
        let Some(path) = address.strip_prefix(UNIX) else {
            let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
            return Ok(Port::Tcp(std::net::TcpListener::bind(&addresses[..])?));
        };
        let path = Path::new(path);
        let is_socket = fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        Ok(Port::Unix(listener, SocketFile(path.into())))
    }

    /// Takes the port into the present event loop.
    pub(crate) fn open(self) -> io::Result<OpenPort> {
        // Where more wait, the kernel drops what comes, and who came tries again a second later.
        match self {
            Port::Tcp(port) => {
                port.set_nonblocking(true)?;
                rustix::net::listen(&port, CONNECTIONS_WAITING_MAX)?;
                Ok(OpenPort::Tcp(TcpListener::from_std(port)?))
            }
            Port::Unix(port, file) => {
                port.set_nonblocking(true)?;
                rustix::net::listen(&port, CONNECTIONS_WAITING_MAX)?;
                Ok(OpenPort::Unix(UnixListener::from_std(port)?, file))
            }
        }
    }
}

impl From<std::net::TcpListener> for Port {
    fn from(port: std::net::TcpListener) -> Port {
        Port::Tcp(port)
    }
}

/// The file of a socket, which goes when the port does.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = fs::remove_file(&self.0);
    }
}

/// A port in an event loop.
#[derive(Debug)]
pub(crate) enum OpenPort {
    /// A number of TCP.
    Tcp(TcpListener),
    /// A socket in the file system, and its file, which goes with it.
    Unix(
        UnixListener,
        #[allow(dead_code, reason = "it is there to be dropped")] SocketFile,
    ),
}

/// Somebody who called at a port.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The connection with the caller.
    pub(crate) connection: TcpStream,
    /// The address of the caller.
    pub(crate) from: SocketAddr,
    /// Whether the connection has the options of TCP.
    pub(crate) is_tcp: bool,
}

impl OpenPort {
    pub(crate) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            OpenPort::Tcp(port) => {
                let (connection, from) = ready!(port.poll_accept(context))?;
                Poll::Ready(Ok(Accepted {
                    connection,
                    from,
                    is_tcp: true,
                }))
            }
            OpenPort::Unix(port, _) => {
                let (connection, _) = ready!(port.poll_accept(context))?;
                Poll::Ready(as_stream(connection).map(|connection| Accepted {
                    connection,
                    from: CALLER_HERE,
                    is_tcp: false,
                }))
            }
        }
    }

    /// The address that the port listens at, if it has one.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            OpenPort::Tcp(port) => port.local_addr(),
            OpenPort::Unix(..) => Ok(CALLER_HERE),
        }
    }
}

/// A stream of bytes is one whatever carries it: reading, writing and waiting are the same calls, and only options of
/// TCP and addresses are not there. So all that serves connections knows one type.
fn as_stream(connection: tokio::net::UnixStream) -> io::Result<TcpStream> {
    let descriptor = OwnedFd::from(connection.into_std()?);
    TcpStream::from_std(std::net::TcpStream::from(descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn bytes_go_both_ways_through_a_socket_in_the_file_system() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("socket");
        let address = format!("{UNIX}{}", path.display());
        let port = Port::bind(&address).unwrap().open().unwrap();
        let mut caller = tokio::net::UnixStream::connect(&path).await.unwrap();
        let accepted = poll_fn(|context| port.poll_accept(context)).await.unwrap();
        assert!(!accepted.is_tcp);
        let mut connection = accepted.connection;
        let mut heard = [0; 5];
        caller.write_all(b"hello").await.unwrap();
        connection.read_exact(&mut heard).await.unwrap();
        connection.write_all(&heard).await.unwrap();
        caller.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        drop(caller);
        assert_eq!(connection.read(&mut heard).await.unwrap(), 0);
        // One port listens there, and its file goes with it.
        assert!(Port::bind(&address).is_err());
        drop(port);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_left_behind_gives_way_and_another_file_does_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("socket");
        let address = format!("{UNIX}{}", path.display());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Port::bind(&address).unwrap());
        fs::write(&path, "kept").unwrap();
        assert!(Port::bind(&address).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
}
