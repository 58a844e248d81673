//! The one place every connection passes, in and out: where TLS and authentication attach.

use crate::budget::{Budget, CLIENT_MEMORY};
use crate::metrics::ConnectionCounts;
use crate::port::{Accepted, OpenPort, Port};
use crate::tls::{PeerSecurity, PortTls};
use rustix::net::sockopt;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long data may stay unacknowledged before a connection counts as dead: a peer behind a
/// partition is found soon after the partition heals, instead of after the kernel's own minutes.
const UNACKNOWLEDGED_MS_MAX: u32 = 5_000;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// One warning for each ten seconds in which no connection can be accepted.
const ACCEPT_FAILURES_PER_WARNING: u32 = 100;

/// A connection that was accepted or dialled.
pub use quorate_tls::Connection;

/// The kind of caller that a port is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// A port for clients.
    Client,
    /// A port for other replicas.
    Peer,
}

/// A port that accepts connections of one kind of caller, or several that are the same.
#[derive(Debug)]
pub struct Listener {
    inner: OpenPort,
    /// Ports beside the first.
    others: Vec<OpenPort>,
    door: Door,
    counts: Arc<ConnectionCounts>,
    budget: Budget,
    tls: Option<Arc<PortTls>>,
}

/// Bound ports for clients.
#[derive(Debug, Default)]
pub struct ClientPorts {
    /// Ports for everything that is not served elsewhere; at least one.
    pub all: Vec<Port>,
    /// Ports for plain HTTP, which the others leave to these then.
    pub http: Vec<Port>,
    /// Ports for metrics and health.
    pub observers: Vec<Port>,
    /// Whether the ports for plain HTTP, and those for metrics, begin with TLS where the others do.
    pub secured: [bool; 2],
}

/// The ports for clients of a replica that runs.
#[derive(Debug)]
pub struct ClientListeners {
    /// The port for everything that is not served elsewhere.
    pub clients: Listener,
    /// A port for plain HTTP, which the other leaves to this one then.
    pub http: Option<Listener>,
    /// A port for metrics and health.
    pub observers: Option<Listener>,
}

impl From<Listener> for ClientListeners {
    fn from(clients: Listener) -> Self {
        ClientListeners {
            clients,
            http: None,
            observers: None,
        }
    }
}

impl ClientPorts {
    /// Takes over the ports; what becomes of connections is counted together, and has one budget.
    pub(crate) fn open(
        self,
        counts: impl Fn() -> ConnectionCounts,
        budget: &Budget,
        tls: Option<Arc<PortTls>>,
    ) -> io::Result<ClientListeners> {
        let open = |ports: Vec<Port>, is_secured: bool| -> io::Result<Listener> {
            let listener = Listener::of_all(ports, Door::Client)?;
            let listener = listener.counted(counts()).budgeted(budget.clone());
            Ok(listener.secured(tls.clone().filter(|_| is_secured)))
        };
        let beside = |ports: Vec<Port>, is_secured| {
            let is_wanted = !ports.is_empty();
            is_wanted.then(|| open(ports, is_secured)).transpose()
        };
        Ok(ClientListeners {
            clients: open(self.all, true)?,
            http: beside(self.http, self.secured[0])?,
            observers: beside(self.observers, self.secured[1])?,
        })
    }
}

impl Listener {
    /// Takes over a bound port.
    pub fn new(port: impl Into<Port>, door: Door) -> io::Result<Self> {
        Ok(Listener {
            inner: port.into().open()?,
            others: Vec::new(),
            door,
            counts: Arc::new(ConnectionCounts::unseen()),
            budget: Budget::new(CLIENT_MEMORY),
            tls: None,
        })
    }

    /// Takes over bound ports, at least one: a caller may come to any of them.
    pub fn of_all(ports: impl IntoIterator<Item: Into<Port>>, door: Door) -> io::Result<Self> {
        let mut ports = ports.into_iter().map(Into::into);
        let first = ports.next().ok_or(io::ErrorKind::InvalidInput)?;
        let others = ports.map(Port::open).collect::<io::Result<_>>()?;
        Ok(Listener {
            others,
            ..Listener::new(first, door)?
        })
    }

    /// Shows what becomes of its connections.
    #[must_use]
    pub fn counted(self, counts: ConnectionCounts) -> Self {
        let counts = Arc::new(counts);
        Listener { counts, ..self }
    }

    /// What is counted of its connections.
    #[must_use]
    pub fn counts(&self) -> Arc<ConnectionCounts> {
        Arc::clone(&self.counts)
    }

    /// Bounds what requests and answers on its connections take.
    #[must_use]
    pub fn budgeted(self, budget: Budget) -> Self {
        Listener { budget, ..self }
    }

    /// The budget for the memory of requests and answers on this port's connections.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Has connections begin with a handshake of TLS, which is up to who accepts them.
    #[must_use]
    pub fn secured(self, tls: Option<Arc<PortTls>>) -> Self {
        Listener { tls, ..self }
    }

    /// What connections begin with, if they are to be encrypted.
    #[must_use]
    pub fn tls(&self) -> Option<Arc<PortTls>> {
        self.tls.clone()
    }

    /// The address that the port listens at.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn admit(&self, accepted: &Accepted) -> io::Result<()> {
        match accepted.is_tcp {
            true => admit(&accepted.connection, self.door),
            false => Ok(()),
        }
    }

    /// The next connection to any of the ports.
    async fn accept_any(&self) -> io::Result<Accepted> {
        poll_fn(|context| {
            let mut ports = self.others.iter().chain([&self.inner]);
            let accepted = ports.find_map(|port| match port.poll_accept(context) {
                Poll::Ready(accepted) => Some(accepted),
                Poll::Pending => None,
            });
            accepted.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The next connection. Waits out a shortage of file descriptors or memory.
    pub async fn accept(&self) -> (TcpStream, SocketAddr) {
        let mut failures = 0_u32;
        loop {
            match self.accept_any().await {
                Ok(accepted) => match self.admit(&accepted) {
                    Ok(()) => return (accepted.connection, accepted.from),
                    Err(error) => {
                        let from = accepted.from;
                        tracing::debug!(%from, %error, "a connection was lost before it was accepted");
                    }
                },
                Err(error) => {
                    if failures.is_multiple_of(ACCEPT_FAILURES_PER_WARNING) {
                        tracing::warn!(
                            door = ?self.door, %error,
                            "cannot accept connections at the moment; the next attempt follows"
                        );
                    }
                    failures = failures.wrapping_add(1);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Connects to a peer at `host:port`, and proves who calls.
pub(crate) async fn dial(address: &str, security: &PeerSecurity) -> io::Result<Connection> {
    let tcp = connect(address).await?;
    if security.is_plain() {
        return Ok(tcp.into());
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    match security.connect(tcp, host).await {
        Err(error) if security.retries_in_plain(&error) => Ok(connect(address).await?.into()),
        connected => Ok(connected?),
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(address).await?;
    admit(&connection, Door::Peer)?;
    Ok(connection)
}

fn admit(connection: &TcpStream, door: Door) -> io::Result<()> {
    connection.set_nodelay(true)?;
    sockopt::set_socket_keepalive(connection, true)?;
    if door == Door::Peer {
        sockopt::set_tcp_keepidle(connection, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(connection, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_user_timeout(connection, UNACKNOWLEDGED_MS_MAX)?;
    }
    Ok(())
}

/// Binds the port for datagrams beside a port for peers, under the same number.
///
/// Datagrams are as safe as connections without TLS: by a secret that the connection tells. They are no way for
/// replicas that speak TLS.
pub fn bind_datagrams(beside: &std::net::TcpListener) -> io::Result<std::net::UdpSocket> {
    std::net::UdpSocket::bind(beside.local_addr()?)
}

/// Binds a port at `host:port`, so that one in use is found before anything else begins.
pub fn bind(address: &str) -> io::Result<std::net::TcpListener> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    std::net::TcpListener::bind(&addresses[..])
}
