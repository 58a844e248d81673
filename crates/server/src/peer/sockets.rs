//! Links over sockets: each replica dials every other, and the dialled connection carries frames
//! from the dialler to the acceptor. Short ones may go by datagram beside it.

use super::handshake::{Lane, PeerLane};
use super::incoming::{Acceptor, accept_all};
use super::outgoing::{Outgoing, keep_connected};
use super::threads::LinksThread;
use super::transmit::{Routes, Tx};
use super::{Arrivals, PeerContext, Transport};
use crate::metrics::Metrics;
use crate::security::Listener;
use quorate_core::ReplicaId;
use quorate_host::Frame;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Connections to all peers and from them.
#[derive(Debug)]
pub(super) struct Sockets {
    outgoing: Vec<(ReplicaId, Outgoing)>,
    /// For frames with bulk; empty where no protocol has any.
    bulk: Vec<(ReplicaId, Outgoing)>,
    bulk_thread: Option<LinksThread>,
    /// Where frames are sent, by peer and lane.
    routes: Routes,
    threads: SocketThreads,
    context: PeerContext,
    arrivals: Arrivals,
    metrics: Arc<Metrics>,
    /// What receives ends with this.
    _receiving: JoinSet<()>,
}

/// What the `split` layout has for messages beside the core's thread; nothing in others.
#[derive(Debug, Default)]
pub(crate) struct SocketThreads {
    /// Connections live there, and receive.
    pub(crate) rx: Option<LinksThread>,
    /// What is sent leaves from there.
    pub(crate) tx: Option<Tx>,
}

impl SocketThreads {
    /// The runtime that connections for messages live on.
    pub(crate) fn handle(&self) -> Handle {
        let rx = self.rx.as_ref();
        rx.map_or_else(Handle::current, |rx| rx.handle.clone())
    }
}

impl Sockets {
    /// Begins to accept. With `bulk`, there is a second connection to each peer, on a thread of its own.
    ///
    /// Must be called inside the runtime of the core; the sockets are of [`SocketThreads::handle`].
    pub(super) fn start(
        listener: Listener,
        threads: SocketThreads,
        context: PeerContext,
        arrivals: Arrivals,
        bulk: bool,
        metrics: &Arc<Metrics>,
    ) -> io::Result<Sockets> {
        let handle = threads.handle();
        let bulk_thread = bulk.then(LinksThread::for_bulk).transpose()?;
        let mut receiving = JoinSet::new();
        if let Some(datagrams) = &context.datagrams {
            let refused = metrics.refused_datagrams.clone();
            let receive = Arc::clone(datagrams).receive(arrivals.clone(), refused);
            receiving.spawn_on(receive, &handle);
        }
        let acceptor = Acceptor {
            context: context.clone(),
            arrivals: arrivals.clone(),
            bulk_arrivals: arrivals.for_bulk(),
            bulk_handle: bulk_thread.as_ref().map(|thread| thread.handle.clone()),
            strangers: metrics.peer_rejected.clone(),
            gateways: metrics.gateways(),
        };
        receiving.spawn_on(accept_all(listener, Arc::new(acceptor)), &handle);
        Ok(Sockets {
            outgoing: Vec::new(),
            bulk: Vec::new(),
            bulk_thread,
            routes: Routes {
                messages: Vec::new(),
                bulk: Vec::new(),
                gateways: Arc::clone(&context.gateways),
                metrics: Arc::clone(metrics),
            },
            threads,
            context,
            arrivals,
            metrics: Arc::clone(metrics),
            _receiving: receiving,
        })
    }

    fn dial(&self, PeerLane { peer, lane }: PeerLane, address: &str) -> Outgoing {
        let metrics = self.metrics.peer(peer);
        let mut link = Outgoing::new(PeerLane { peer, lane }, address.to_owned(), metrics.clone());
        self.context
            .contacts
            .know(peer, metrics, Some(link.shared()));
        let connection = keep_connected(link.shared(), self.context.clone(), self.arrivals.clone());
        let task = match (lane, &self.bulk_thread) {
            (Lane::Bulk, Some(thread)) => thread.handle.spawn(connection),
            _ => self.threads.handle().spawn(connection),
        };
        link.ends_with(task.abort_handle());
        link
    }
}

impl Transport for Sockets {
    fn meet(&mut self, addresses: &[(ReplicaId, String)]) -> Vec<ReplicaId> {
        let stays = |(peer, link): &(ReplicaId, Outgoing)| {
            let at = addresses.iter().find(|(id, _)| id == peer);
            at.is_some_and(|(_, address)| *address == link.address())
        };
        let before: Vec<ReplicaId> = self.outgoing.iter().map(|(peer, _)| *peer).collect();
        self.outgoing.retain(stays);
        self.bulk.retain(stays);
        let is_here = |id: &ReplicaId| self.outgoing.iter().any(|(peer, _)| peer == id);
        let gone: Vec<ReplicaId> = before.into_iter().filter(|id| !is_here(id)).collect();
        gone.iter()
            .for_each(|peer| self.context.contacts.forget(*peer));
        let new = addresses.iter().filter(|(id, _)| !is_here(id));
        let new: Vec<_> = new.cloned().collect();
        for (peer, address) in new {
            let link = self.dial(
                PeerLane {
                    peer,
                    lane: Lane::Messages,
                },
                &address,
            );
            self.outgoing.push((peer, link));
            if self.bulk_thread.is_some() {
                let link = self.dial(
                    PeerLane {
                        peer,
                        lane: Lane::Bulk,
                    },
                    &address,
                );
                self.bulk.push((peer, link));
            }
        }
        let shared = |links: &[(ReplicaId, Outgoing)]| {
            let shared = links.iter().map(|(peer, link)| (*peer, link.shared()));
            shared.collect()
        };
        (self.routes.messages, self.routes.bulk) = (shared(&self.outgoing), shared(&self.bulk));
        if let Some(tx) = &self.threads.tx {
            tx.meet(self.routes.clone());
        }
        gone
    }

    fn wait_for(&self, former: &[ReplicaId]) {
        for (peer, link) in self.outgoing.iter().chain(&self.bulk) {
            link.waits_for_call(former.contains(peer));
        }
    }

    fn send(&mut self, frames: Vec<Frame>) {
        match &self.threads.tx {
            Some(tx) => tx.send(frames, &self.routes),
            None => self.routes.send(&frames),
        }
    }
}
