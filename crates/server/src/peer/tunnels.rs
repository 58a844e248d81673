//! Connections that faces have with each other, over the ports for peers: by these a client that comes to one replica
//! is served by another.
//!
//! Who gets through is whoever may connect to the peer port. What a connection is for is up to the faces, in a short
//! text of bytes; what follows on it is theirs, both ways.

use super::context::PeerContext;
use super::opening::{self, Opening};
use crate::security::{self, Connection};
use bytes::Bytes;
use quorate_core::{ClusterId, Decoder, Encoder, Group, ReplicaId, Wire, WireError};
use quorate_tls::DetachedConnection;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;

/// Tunnels that wait until the face takes them, at most.
const WAITING_MAX: usize = 256;
/// The longest text that says what a tunnel is for, in bytes.
const PURPOSE_BYTES_MAX: usize = 64;

/// The first message on a tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TunnelHello {
    /// The cluster of both ends.
    pub(crate) cluster: ClusterId,
    /// The log that both ends take part in.
    pub(crate) group: Group,
    /// The replica that calls.
    pub(crate) from: ReplicaId,
    /// The replica that is meant.
    pub(crate) to: ReplicaId,
    /// What the faces agree on.
    pub(crate) purpose: Bytes,
}

impl Opening for TunnelHello {
    const MAGIC: [u8; 8] = *b"QUORTUNL";
}

impl Wire for TunnelHello {
    fn encode(&self, out: &mut Encoder) {
        self.cluster.encode(out);
        self.group.encode(out);
        self.from.encode(out);
        self.to.encode(out);
        out.bytes(&self.purpose);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let hello = TunnelHello {
            cluster: ClusterId::decode(input)?,
            group: Group::decode(input)?,
            from: ReplicaId::decode(input)?,
            to: ReplicaId::decode(input)?,
            purpose: input.bytes()?,
        };
        match hello.purpose.len() <= PURPOSE_BYTES_MAX {
            true => Ok(hello),
            false => Err(WireError::Range("purpose")),
        }
    }
}

/// A connection that another replica's face has begun.
#[derive(Debug)]
pub struct Tunnel {
    /// The replica that called.
    pub from: ReplicaId,
    /// A few bytes that say what the tunnel is for.
    pub purpose: Bytes,
    connection: DetachedConnection,
}

impl Tunnel {
    /// Brings the connection into the present runtime.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(self) -> io::Result<Connection> {
        Connection::attach(self.connection)
    }
}

/// Where tunnels wait for the face.
pub(super) struct TunnelQueue {
    arrived: mpsc::Sender<Tunnel>,
    /// The face's end, until it is taken.
    taken: Mutex<Option<mpsc::Receiver<Tunnel>>>,
}

impl fmt::Debug for TunnelQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelQueue").finish_non_exhaustive()
    }
}

impl Default for TunnelQueue {
    fn default() -> Self {
        let (arrived, taken) = mpsc::channel(WAITING_MAX);
        TunnelQueue {
            arrived,
            taken: Mutex::new(Some(taken)),
        }
    }
}

/// Gives a tunnel to the face. Closes it if the face has no use for it, or it was meant for somebody else.
pub(super) fn admit(connection: Connection, hello: TunnelHello, context: &PeerContext) {
    let identity = &context.identity;
    let is_ours =
        (hello.cluster, hello.group, hello.to) == (identity.cluster, identity.group, identity.me);
    if !(is_ours && context.contacts.knows(hello.from)) {
        return;
    }
    let Ok(connection) = connection.detach() else {
        return;
    };
    // A face that takes none has dropped its end; one that has too many to take sees this one closed.
    let _ = context.tunnels.arrived.try_send(Tunnel {
        from: hello.from,
        purpose: hello.purpose,
        connection,
    });
}

/// A replica's end of tunnels: those that come, and how others are begun.
#[derive(Debug)]
pub struct Tunnels {
    /// Tunnels that other replicas have begun.
    pub arrived: mpsc::Receiver<Tunnel>,
    /// What begins tunnels to other replicas.
    pub dialer: TunnelDialer,
}

/// Begins tunnels to other replicas.
#[derive(Clone)]
pub struct TunnelDialer {
    context: PeerContext,
}

impl fmt::Debug for TunnelDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelDialer").finish_non_exhaustive()
    }
}

impl Tunnels {
    /// The only end for the face; `None` once it was taken.
    pub(super) fn take(context: &PeerContext) -> Option<Tunnels> {
        let mut taken = (context.tunnels.taken.lock()).unwrap_or_else(PoisonError::into_inner);
        Some(Tunnels {
            arrived: taken.take()?,
            dialer: TunnelDialer {
                context: context.clone(),
            },
        })
    }
}

impl TunnelDialer {
    /// Connects to the face of a peer. How long that may take is up to the caller.
    ///
    /// # Errors
    /// When it is no peer, or cannot be reached.
    pub async fn dial(&self, to: ReplicaId, purpose: Bytes) -> io::Result<Connection> {
        let PeerContext {
            identity,
            contacts,
            security,
            ..
        } = &self.context;
        let addresses = contacts.addresses().0;
        let found = addresses.into_iter().find(|(peer, _)| *peer == to);
        let (_, address) = found.ok_or(io::ErrorKind::NotFound)?;
        let mut connection = security::dial(&address, security).await?;
        let hello = TunnelHello {
            cluster: identity.cluster,
            group: identity.group,
            from: identity.me,
            to,
            purpose,
        };
        opening::send(&mut connection, &hello, identity.supported).await?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::handshake::tests::identity;
    use crate::peer::tests::{pair, up};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Scenario: faces exchange bytes both ways; a tunnel that is meant for another replica is closed.
    #[tokio::test]
    async fn a_tunnel_carries_bytes_both_ways() {
        let (mut one, mut two, _) = pair(identity(1), identity(2));
        up(&mut one).await;
        up(&mut two).await;
        let near = one.links.tunnels().unwrap();
        let mut far = two.links.tunnels().unwrap();
        assert!(two.links.tunnels().is_none());
        let mut here = near
            .dialer
            .dial(ReplicaId(2), Bytes::from("why"))
            .await
            .unwrap();
        here.write_all(b"ping").await.unwrap();
        let tunnel = far.arrived.recv().await.unwrap();
        assert_eq!(
            (tunnel.from, &tunnel.purpose[..]),
            (ReplicaId(1), &b"why"[..])
        );
        let mut there = tunnel.open().unwrap();
        let mut said = [0; 4];
        there.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"ping");
        there.write_all(b"pong").await.unwrap();
        here.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"pong");
        let nobody = near.dialer.dial(ReplicaId(7), Bytes::new()).await;
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Scenario: a replica whose face takes no tunnels closes them.
    #[tokio::test]
    async fn a_face_without_tunnels_closes_them() {
        let (mut one, mut two, _) = pair(identity(1), identity(2));
        up(&mut one).await;
        up(&mut two).await;
        drop(two.links.tunnels());
        let near = one.links.tunnels().unwrap();
        let mut here = near.dialer.dial(ReplicaId(2), Bytes::new()).await.unwrap();
        assert_eq!(here.read(&mut [0; 4]).await.unwrap_or_default(), 0);
    }
}
