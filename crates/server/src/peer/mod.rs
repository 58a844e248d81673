//! Links to the other replicas.
//!
//! The core gives a turn's frames to a [`Transport`] and takes what peers did as [`Arrival`]s from a queue. Who a
//! peer is, and whether it is taken, is the same whatever carries its frames ([`PeerContext`]).

pub(crate) mod addresses;
mod arrivals;
pub(crate) mod call_back;
mod contacts;
mod context;
pub(crate) mod datagrams;
pub(crate) mod frame;
mod framed;
pub(crate) mod gateways;
pub(crate) mod handshake;
pub(crate) mod incarnations;
mod incoming;
pub(crate) mod join_question;
mod last_heard;
pub(crate) mod long_frames;
pub(crate) mod opening;
pub(crate) mod outgoing;
pub(crate) mod pending;
pub(crate) mod rings;
mod sockets;
pub(crate) mod threads;
pub(crate) mod transmit;
pub(crate) mod tunnels;

use crate::metrics::Metrics;
use crate::security::Listener;
use crate::tls::PeerSecurity;
use addresses::Addresses;
pub(crate) use arrivals::{Arrival, Arrivals};
use context::PeerContext;
use datagrams::Datagrams;
use handshake::{Identity, PeerInfo};
use incarnations::Incarnations;
use quorate_core::{Epoch, Member, ReplicaId};
use quorate_host::Frame;
use rings::{RingTransport, Rings};
pub(crate) use sockets::SocketThreads;
use sockets::Sockets;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::sync::mpsc;
pub(crate) use tunnels::Tunnels;

/// How long a handshake between replicas may take, that of TLS and what both say of themselves together.
const HANDSHAKE_TIMEOUT: Duration = quorate_tls::HANDSHAKE_TIMEOUT;

/// What carries frames between this replica and its peers.
///
/// Frames may be lost, come twice and overtake each other, and sending never waits: what cannot be sent is lost. What
/// arrives goes into the queue of [`Arrivals`] that a transport is started with, as do the news that a peer can be
/// reached, in the wire version agreed on with it, and that it cannot. A frame in a newer version is lost.
pub(crate) trait Transport: fmt::Debug + Send {
    /// From now on these are the peers, and where each is: others are not listened to any more. Says who
    /// is no peer now, or is one somewhere else.
    ///
    /// Called inside the runtime of the core.
    fn meet(&mut self, peers: &[(ReplicaId, String)]) -> Vec<ReplicaId>;

    /// These are no members any more, and need to be told nothing: nobody is looked for until it calls.
    fn wait_for(&self, former: &[ReplicaId]);

    /// Sends the frames of a turn, each to one peer or to all.
    fn send(&mut self, frames: Vec<Frame>);
}

/// What a transport is started from.
#[derive(Debug)]
pub(crate) enum TransportSetup {
    /// TCP, and UDP for what is short if there is a socket for that; by these threads.
    Sockets(Listener, Option<Datagrams>, SocketThreads),
    /// Memory: all peers are in this process.
    Rings(Rings),
}

/// The core's end of all links.
#[derive(Debug)]
pub(crate) struct Links {
    transport: Box<dyn Transport>,
    context: PeerContext,
}

impl Links {
    /// Begins to look for the other members and to listen to them. `addresses` say where they are; with `bulk`,
    /// frames with bulk have a way of their own.
    ///
    /// Must be called inside the runtime of the core.
    pub(crate) fn start(
        way: TransportSetup,
        identity: Identity,
        incarnations: Incarnations,
        addresses: &[(ReplicaId, String)],
        bulk: bool,
        security: PeerSecurity,
        metrics: &Arc<Metrics>,
    ) -> io::Result<(Links, mpsc::Receiver<Arrival>)> {
        let (arrivals, receiver) = Arrivals::new();
        let mut context = PeerContext::new(identity, incarnations, security);
        let mut transport: Box<dyn Transport> = match way {
            TransportSetup::Sockets(listener, datagrams, threads) => {
                context.datagrams = datagrams.map(Arc::new);
                let context = context.clone();
                Box::new(Sockets::start(
                    listener, threads, context, arrivals, bulk, metrics,
                )?)
            }
            TransportSetup::Rings(rings) => {
                let context = context.clone();
                Box::new(RingTransport::start(
                    rings, context, arrivals, bulk, metrics,
                )?)
            }
        };
        transport.meet(addresses);
        Ok((Links { transport, context }, receiver))
    }

    /// Tells the transport who the peers are and where: see [`Transport::meet`].
    pub(crate) fn meet(&mut self, addresses: &[(ReplicaId, String)]) -> Vec<ReplicaId> {
        self.transport.meet(addresses)
    }

    /// Waits for former members to call instead of dialling them: see [`Transport::wait_for`].
    pub(crate) fn wait_for(&self, former: &[ReplicaId]) {
        self.transport.wait_for(former);
    }

    /// Sends the frames of a turn, each to one peer or to all.
    pub(crate) fn send(&mut self, frames: Vec<Frame>) {
        if !frames.is_empty() {
            self.transport.send(frames);
        }
    }

    /// What those who ask are told of the group.
    pub(crate) fn tell_newest(&self, epoch: &Epoch) {
        self.context.contacts.tell_newest(epoch.clone());
    }

    /// Where each peer is dialled.
    pub(crate) fn addresses(&self) -> Addresses {
        self.context.contacts.addresses()
    }

    /// What each peer has said of itself.
    pub(crate) fn about(&self) -> BTreeMap<ReplicaId, PeerInfo> {
        self.context.contacts.about()
    }

    /// A peer in the incarnation it was heard in last.
    pub(crate) fn latest_member(&self, id: ReplicaId) -> Option<Member> {
        let incarnation = self.context.incarnations.present(id)?;
        Some(Member { id, incarnation })
    }

    /// The face's end of tunnels to and from other replicas; `None` once it was taken.
    pub(crate) fn tunnels(&self) -> Option<Tunnels> {
        Tunnels::take(&self.context)
    }

    /// The number of remote gateways that are connected.
    pub(crate) fn gateways(&self) -> usize {
        self.context.gateways.count()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::handshake::Lane;
    use super::handshake::tests::identity;
    use super::threads::LinksThread;
    use super::transmit::Tx;
    use super::*;
    use crate::polling::Polling;
    use crate::security::{Door, bind};
    use bytes::Bytes;
    use quorate_core::{Boot, Peers};
    use quorate_host::{SupportedVersions, WireVersion};

    pub(crate) struct Replica {
        pub(crate) links: Links,
        pub(crate) arrivals: mpsc::Receiver<Arrival>,
        metrics: Arc<Metrics>,
    }

    impl Replica {
        /// One that knows one peer.
        pub(crate) fn start(
            sockets: (std::net::TcpListener, Option<Datagrams>),
            identity: Identity,
            peer: (u16, &str),
        ) -> Replica {
            Replica::start_on(SocketThreads::default(), sockets, identity, peer)
        }

        fn start_on(
            threads: SocketThreads,
            (port, datagrams): (std::net::TcpListener, Option<Datagrams>),
            identity: Identity,
            (peer, address): (u16, &str),
        ) -> Replica {
            let listener = {
                let handle = threads.handle();
                let _inside = handle.enter();
                Listener::new(port, Door::Peer).unwrap()
            };
            let way = TransportSetup::Sockets(listener, datagrams, threads);
            Replica::start_by(way, identity, &[(ReplicaId(peer), address.into())])
        }

        pub(crate) fn start_by(
            way: TransportSetup,
            identity: Identity,
            peers: &[(ReplicaId, String)],
        ) -> Replica {
            let metrics = Arc::new(Metrics::new());
            let incarnations = Incarnations::of(&identity.epoch);
            let security = PeerSecurity::default();
            let started =
                Links::start(way, identity, incarnations, peers, true, security, &metrics);
            let (links, arrivals) = started.unwrap();
            Replica {
                links,
                arrivals,
                metrics,
            }
        }

        /// A figure of its metrics page.
        pub(crate) fn figure(&self, name: &str) -> u64 {
            let page = self.metrics.render();
            let mut lines = page.lines().filter_map(|line| line.rsplit_once(' '));
            let (_, figure) = lines.find(|(key, _)| *key == name).expect(name);
            figure.parse().unwrap()
        }
    }

    /// Two replicas, 1 and 2, each with the identity given.
    pub(crate) fn pair(one: Identity, two: Identity) -> (Replica, Replica, String) {
        let ports = [bind("127.0.0.1:0").unwrap(), bind("127.0.0.1:0").unwrap()];
        let [first, second] = ports
            .each_ref()
            .map(|port| port.local_addr().unwrap().to_string());
        let [port, other] = ports.map(|port| (port, None));
        let two = Replica::start(other, two, (1, &first));
        (Replica::start(port, one, (2, &second)), two, first)
    }

    pub(crate) async fn next(replica: &mut Replica) -> Arrival {
        let arrival = tokio::time::timeout(Duration::from_secs(10), replica.arrivals.recv());
        arrival
            .await
            .expect("nothing arrived in time")
            .expect("the links are gone")
    }

    pub(crate) async fn up(replica: &mut Replica) -> WireVersion {
        match next(replica).await {
            Arrival::Link {
                version: Some(version),
                ..
            } => version,
            other => panic!("not a new link: {other:?}"),
        }
    }

    pub(crate) fn frame(payload: &[u8]) -> Frame {
        let (one, two) = payload.split_at(payload.len() / 2);
        let chunks = vec![Bytes::copy_from_slice(one), Bytes::copy_from_slice(two)];
        Frame {
            to: Peers::All,
            version: SupportedVersions::SHIPPED.newest,
            bulk: false,
            chunks,
        }
    }

    pub(crate) async fn expect_frame(replica: &mut Replica, expected: &[u8]) {
        match next(replica).await {
            Arrival::Frame { payload, .. } => assert!(payload == expected),
            Arrival::Link { .. } => panic!("a link changed where a frame was expected"),
        }
    }

    #[tokio::test]
    async fn frames_of_every_size_arrive_in_order() {
        let (mut one, mut two, _) = pair(identity(1), identity(2));
        up(&mut one).await;
        up(&mut two).await;
        let payloads: Vec<Vec<u8>> = [1, 3000, 100_000, 5, 9 << 20]
            .map(|size| vec![size as u8; size])
            .to_vec();
        let frames = payloads.iter().map(|payload| frame(payload));
        one.links.send(frames.collect());
        for payload in &payloads {
            expect_frame(&mut two, payload).await;
        }
        two.links.send(vec![frame(b"back")]);
        expect_frame(&mut one, b"back").await;
    }

    /// Scenario: what is sent and what is received have threads of their own, which sleep or look for work.
    #[tokio::test]
    async fn frames_arrive_over_threads_of_their_own_as_well() {
        for is_busy in [false, true] {
            let polling = Polling {
                is_busy,
                ..Polling::default()
            };
            let ports = [bind("127.0.0.1:0").unwrap(), bind("127.0.0.1:0").unwrap()];
            let addresses = ports.each_ref().map(|port| port.local_addr().unwrap());
            let start = |port, me: u16, peer: usize| {
                let threads = SocketThreads {
                    rx: Some(LinksThread::for_messages(polling.rx()).unwrap()),
                    tx: Some(Tx::start(polling.tx()).unwrap()),
                };
                let peer = (peer as u16 + 1, &*addresses[peer].to_string());
                Replica::start_on(threads, (port, None), identity(me), peer)
            };
            let [port, its_port] = ports;
            let (mut one, mut two) = (start(port, 1, 1), start(its_port, 2, 0));
            up(&mut one).await;
            up(&mut two).await;
            for length in [1, 3000, 100_000] {
                one.links
                    .send(vec![frame(&vec![3; length]), frame(b"behind")]);
                expect_frame(&mut two, &vec![3; length]).await;
                expect_frame(&mut two, b"behind").await;
            }
            two.links.send(vec![frame(b"back")]);
            expect_frame(&mut one, b"back").await;
        }
    }

    /// Scenario: a frame with bulk that the receiver does not take fills its connection; a small one
    /// behind it arrives first.
    #[tokio::test]
    async fn bulk_holds_up_no_message() {
        let (mut one, mut two, _) = pair(identity(1), identity(2));
        up(&mut one).await;
        up(&mut two).await;
        let bulk = |payload: &[u8]| Frame {
            bulk: true,
            ..frame(payload)
        };
        // The connection for bulk comes up by itself: what is sent before is dropped.
        let probe = async {
            loop {
                one.links.send(vec![bulk(b"probe")]);
                let arrived = tokio::time::timeout(Duration::from_millis(20), two.arrivals.recv());
                if let Ok(Some(Arrival::Frame { .. })) = arrived.await {
                    return;
                }
            }
        };
        let probed = tokio::time::timeout(Duration::from_secs(10), probe);
        probed.await.expect("no connection for bulk");
        let large = vec![7; 40 << 20];
        one.links.send(vec![bulk(&large), frame(b"small")]);
        let mut arrived = Vec::new();
        while arrived.len() < 2 {
            if let Arrival::Frame { payload, .. } = next(&mut two).await
                && payload != b"probe"[..]
            {
                arrived.push(payload.len());
            }
        }
        assert_eq!(arrived, [5, large.len()]);
    }

    /// Scenario: two replicas that speak different versions connect, in both directions in the newest
    /// that both speak. What one of them still has to say in a newer one is not for this link.
    #[tokio::test]
    async fn replicas_of_different_versions_agree_and_a_newer_frame_is_not_sent() {
        let both = [SupportedVersions::SHIPPED, SupportedVersions::REHEARSED];
        for (first, second) in both.into_iter().zip([SupportedVersions::REHEARSED; 2]) {
            let speaks = |me, supported| Identity {
                supported,
                ..identity(me)
            };
            let (mut one, mut two, _) = pair(speaks(1, first), speaks(2, second));
            let agreed = first.common(second).unwrap();
            assert_eq!((up(&mut one).await, up(&mut two).await), (agreed, agreed));
            let newest = Frame {
                version: SupportedVersions::REHEARSED.newest,
                ..frame(b"news")
            };
            two.links.send(vec![newest, frame(b"for everybody")]);
            if agreed == SupportedVersions::REHEARSED.newest {
                expect_frame(&mut one, b"news").await;
            }
            expect_frame(&mut one, b"for everybody").await;
        }
    }

    #[tokio::test]
    async fn a_replica_of_another_cluster_never_gets_through() {
        let mut stranger = identity(2);
        stranger.cluster = quorate_core::ClusterId(5);
        let (mut one, mut two, _) = pair(identity(1), stranger);
        two.links.send(vec![frame(b"poison")]);
        let silence = Duration::from_millis(300);
        assert!(
            tokio::time::timeout(silence, one.arrivals.recv())
                .await
                .is_err()
        );
        assert!(
            tokio::time::timeout(silence, two.arrivals.recv())
                .await
                .is_err()
        );
    }

    /// Scenario: twice as many connections as there may be handshakes say nothing while a peer starts, and go on
    /// coming.
    #[tokio::test]
    async fn idle_strangers_keep_no_peer_out() {
        let ports = [bind("127.0.0.1:0").unwrap(), bind("127.0.0.1:0").unwrap()];
        let [first, second] = ports
            .each_ref()
            .map(|port| port.local_addr().unwrap().to_string());
        let [port, other] = ports.map(|port| (port, None));
        let mut one = Replica::start(port, identity(1), (2, &second));
        let mut idle = Vec::new();
        for _ in 0..2 * pending::PENDING_MAX {
            idle.push(tokio::net::TcpStream::connect(&first).await.unwrap());
        }
        let mut two = Replica::start(other, identity(2), (1, &first));
        let flood = async {
            loop {
                idle.push(tokio::net::TcpStream::connect(&first).await.unwrap());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            never = flood => never,
            _ = async { (up(&mut one).await, up(&mut two).await) } => {}
        }
    }

    #[tokio::test]
    async fn hostile_bytes_on_the_peer_port_disturb_nobody() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut one, mut two, address) = pair(identity(1), identity(2));
        up(&mut one).await;
        up(&mut two).await;
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut hostile = tokio::net::TcpStream::connect(&address).await.unwrap();
            let mut bytes: Vec<u8> = Vec::new();
            if seed % 2 == 0 {
                // A member's own voice, to get past the door.
                opening::send(
                    &mut bytes,
                    &identity(3).hello(ReplicaId(1), Lane::Messages, Boot(7)),
                    SupportedVersions::SHIPPED,
                )
                .await
                .unwrap();
            }
            bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(500));
            hostile.write_all(&bytes).await.unwrap();
            hostile.shutdown().await.unwrap();
            let mut rest = Vec::new();
            let closed = hostile.read_to_end(&mut rest);
            let closed = tokio::time::timeout(Duration::from_secs(10), closed).await;
            assert!(closed.is_ok(), "seed {seed}: the connection stayed open");
        }
        two.links.send(vec![frame(b"still here")]);
        expect_frame(&mut one, b"still here").await;
    }
}
