//! Links in memory, between replicas of one process: a bounded ring for each of them towards each other one.
//!
//! [`Rings`] is where they find each other. Whoever starts goes in, tells all whom it takes for peers that there is
//! news, and they look for it; whoever ends goes out, and its rings end at both of their ends, as connections do. Two
//! replicas compare the same as over connections before the first frame: cluster, incarnations, epoch, versions.
//!
//! A frame is handed over as it is: one piece of memory that sender and receivers share. Long values are pieces of
//! their own in frames; a frame of several pieces is put together once, by the first receiver that takes it, for
//! hosts read frames from one piece. There is no checksum: nothing is on its way anywhere.
//!
//! A ring has room for so many frames and so many bytes. What finds it full is lost, as it is on a connection to a
//! slow peer.

#[cfg(test)]
mod tests;

use super::handshake::{Lane, PeerLane, RejectCode, Rejection};
use super::outgoing::{BULK_BYTES_MAX, QUEUE_BYTES_MAX};
use super::threads::LinksThread;
use super::{Arrivals, PeerContext, Transport, frame};
use crate::metrics::{Metrics, PeerMetrics};
use bytes::Bytes;
use quorate_core::{Boot, Peers, ReplicaId};
use quorate_host::{Frame, WireVersion};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// Frames that may wait in a ring.
const FRAMES_MAX: usize = 1024;
/// The time before a peer that refused is asked again, if nothing new is heard of before.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The directory by which the replicas of one process find each other. Each is given a clone; different clusters need
/// different ones.
#[derive(Clone, Debug, Default)]
pub struct Rings(Arc<RingDirectory>);

#[derive(Debug, Default)]
struct RingDirectory {
    present: Mutex<BTreeMap<ReplicaId, Arc<RingReplica>>>,
    /// Somebody came, or has other peers than before.
    news: watch::Sender<()>,
}

/// A replica that is there.
#[derive(Debug)]
struct RingReplica {
    context: PeerContext,
    messages: LaneReceiver,
    /// Only where a protocol may have bulk.
    bulk: Option<LaneReceiver>,
    /// What takes from rings; none any more once the replica ends.
    receiving: Mutex<Option<JoinSet<()>>>,
}

/// The receiver of a replica's rings of one lane.
#[derive(Debug)]
struct LaneReceiver {
    arrivals: Arrivals,
    handle: Handle,
}

/// The rings between this replica and its peers.
#[derive(Debug)]
pub(super) struct RingTransport {
    rings: Rings,
    me: Arc<RingReplica>,
    routes: Vec<(Arc<Route>, AbortHandle)>,
    metrics: Arc<Metrics>,
    _bulk_thread: Option<LinksThread>,
}

/// The rings to one peer, and what is counted of them.
#[derive(Debug)]
struct Route {
    peer: ReplicaId,
    metrics: PeerMetrics,
    link: Mutex<Option<Link>>,
}

/// The rings to a peer that is there, and the version agreed on with it.
#[derive(Clone, Debug)]
struct Link {
    version: WireVersion,
    messages: Ring,
    bulk: Option<Ring>,
}

/// The sender's end of a ring.
#[derive(Clone, Debug)]
struct Ring {
    queue: mpsc::Sender<Arc<SharedFrame>>,
    /// Bytes of the frames in the ring.
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

/// A frame on its way, the same for all receivers.
#[derive(Debug)]
struct SharedFrame {
    pieces: Vec<Bytes>,
    length: usize,
    whole: OnceLock<Bytes>,
}

/// The reason why there is no link to a peer.
enum NoLink {
    /// Nobody of that number is there.
    Absent,
    /// One of the two does not take the other.
    Refused(Rejection),
}

impl Rings {
    fn enter(&self, who: &Arc<RingReplica>) {
        let id = who.context.identity.me;
        lock(&self.0.present).insert(id, Arc::clone(who));
        self.0.news.send_replace(());
    }

    fn leave(&self, who: &Arc<RingReplica>) {
        let mut present = lock(&self.0.present);
        let id = who.context.identity.me;
        // It may have started again already.
        if present
            .get(&id)
            .is_some_and(|there| Arc::ptr_eq(there, who))
        {
            present.remove(&id);
        }
    }

    /// Rings from a replica to another.
    fn link(&self, from: &RingReplica, to: ReplicaId) -> Result<Link, NoLink> {
        let there = lock(&self.0.present).get(&to).cloned();
        let there = there.ok_or(NoLink::Absent)?;
        let version = greet(&from.context, &there.context).map_err(NoLink::Refused)?;
        let me = from.context.identity.me;
        Ok(Link {
            version,
            messages: there.take(me, Lane::Messages).ok_or(NoLink::Absent)?,
            bulk: there.take(me, Lane::Bulk),
        })
    }
}

/// What is said by hello and welcome over a connection.
fn greet(from: &PeerContext, to: &PeerContext) -> Result<WireVersion, Rejection> {
    let (dialler, acceptor) = (&from.identity, &to.identity);
    let Some(version) = dialler.supported.common(acceptor.supported) else {
        let text = format!(
            "it speaks {}, this replica speaks {}",
            acceptor.supported, dialler.supported
        );
        let code = RejectCode::WireVersion;
        return Err(Rejection { code, text });
    };
    // Nobody else is in this process: a token would tell nothing.
    let hello = dialler.hello(acceptor.me, Lane::Messages, Boot(0));
    let is_peer = to.contacts.knows(dialler.me);
    acceptor.judge(&hello, is_peer)?;
    to.incarnations.admit(dialler.me, dialler.incarnation)?;
    to.contacts.said(dialler.me, hello.about);
    dialler.judge_welcome(acceptor.me, &acceptor.welcome(None), &from.incarnations)?;
    Ok(version)
}

impl RingReplica {
    /// A ring from a peer, from which this replica takes from now on instead of the one before. `None` if it ends,
    /// has no such lane, or knows no such peer by now.
    fn take(&self, from: ReplicaId, lane: Lane) -> Option<Ring> {
        let (inlet, bytes_max) = match lane {
            Lane::Bulk => (self.bulk.as_ref()?, BULK_BYTES_MAX),
            _ => (&self.messages, QUEUE_BYTES_MAX),
        };
        let mut receiving = lock(&self.receiving);
        let receiving = receiving.as_mut()?;
        let (metrics, ends) = self
            .context
            .contacts
            .called(PeerLane { peer: from, lane })?;
        let (queue, frames) = mpsc::channel(FRAMES_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let outlet = RingReceiver {
            from,
            frames,
            bytes: Arc::clone(&bytes),
            metrics,
            arrivals: inlet.arrivals.clone(),
        };
        while receiving.try_join_next().is_some() {}
        receiving.spawn_on(outlet.run(ends), &inlet.handle);
        Some(Ring {
            queue,
            bytes,
            bytes_max,
        })
    }
}

/// The receiver's end of a ring.
struct RingReceiver {
    from: ReplicaId,
    frames: mpsc::Receiver<Arc<SharedFrame>>,
    bytes: Arc<AtomicUsize>,
    metrics: PeerMetrics,
    arrivals: Arrivals,
}

impl RingReceiver {
    async fn run(mut self, ends: Arc<Notify>) {
        tokio::select! {
            () = ends.notified() => {}
            () = self.pass() => {}
        }
    }

    /// Passes frames to the core until there will be none, or no core. While the core has too much to do already, they
    /// gather in the ring.
    async fn pass(&mut self) {
        while let Some(shared) = self.frames.recv().await {
            self.metrics.received_frames.increment(1);
            self.metrics.received_bytes.increment(shared.length as u64);
            let passed = self.arrivals.frame(self.from, shared.whole()).await;
            self.bytes.fetch_sub(shared.length, Ordering::Relaxed);
            if passed.is_none() {
                return;
            }
        }
    }
}

impl Ring {
    /// Whether there was room.
    fn push(&self, shared: &Arc<SharedFrame>) -> bool {
        // Only one sends: as on a connection, one frame of any length may go over.
        if self.bytes.load(Ordering::Relaxed) > self.bytes_max {
            return false;
        }
        self.bytes.fetch_add(shared.length, Ordering::Relaxed);
        let pushed = self.queue.try_send(Arc::clone(shared)).is_ok();
        if !pushed {
            self.bytes.fetch_sub(shared.length, Ordering::Relaxed);
        }
        pushed
    }
}

impl Link {
    /// Waits until the peer takes nothing from the link any more.
    async fn ended(&self) {
        let bulk = async {
            match &self.bulk {
                Some(ring) => ring.queue.closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.messages.queue.closed() => {}
            () = bulk => {}
        }
    }
}

impl SharedFrame {
    /// `None` if no transport would take it.
    fn of(pieces: Vec<Bytes>) -> Option<Arc<SharedFrame>> {
        let length = pieces.iter().map(Bytes::len).sum();
        frame::is_length(length).then(|| {
            Arc::new(SharedFrame {
                pieces,
                length,
                whole: OnceLock::new(),
            })
        })
    }

    fn whole(&self) -> Bytes {
        match &self.pieces[..] {
            [piece] => piece.clone(),
            pieces => self.whole.get_or_init(|| pieces.concat().into()).clone(),
        }
    }
}

impl Route {
    fn push(&self, version: WireVersion, is_bulk: bool, shared: &Arc<SharedFrame>) {
        let is_sent = match &*lock(&self.link) {
            Some(link) if version <= link.version => match is_bulk {
                true => link.bulk.as_ref().is_some_and(|ring| ring.push(shared)),
                false => link.messages.push(shared),
            },
            _ => false,
        };
        if is_sent {
            self.metrics.sent_frames.increment(1);
            self.metrics.sent_bytes.increment(shared.length as u64);
        } else {
            self.metrics.dropped.increment(1);
        }
    }

    fn set(&self, link: Option<Link>) {
        self.metrics
            .connected
            .set(f64::from(u8::from(link.is_some())));
        *lock(&self.link) = link;
    }

    /// Keeps rings to the peer while it is there, and tells the core whether it is.
    async fn keep(self: Arc<Self>, rings: Rings, me: Arc<RingReplica>) {
        let mut news = rings.0.news.subscribe();
        let mut complaint = String::new();
        let arrivals = &me.messages.arrivals;
        loop {
            news.mark_unchanged();
            match rings.link(&me, self.peer) {
                Ok(link) => {
                    complaint.clear();
                    tracing::info!(peer = %self.peer, wire_version = %link.version, "peer linked");
                    self.set(Some(link.clone()));
                    arrivals.link(self.peer, Some(link.version)).await;
                    link.ended().await;
                    self.set(None);
                    tracing::warn!(peer = %self.peer, "link to the peer lost: it ended");
                    arrivals.link(self.peer, None).await;
                }
                Err(NoLink::Absent) => {
                    let _ = news.changed().await;
                }
                Err(NoLink::Refused(why)) => {
                    self.metrics.failed_dials.increment(1);
                    if why.text != complaint {
                        tracing::warn!(peer = %self.peer, "no link to the peer: {}", why.text);
                        complaint = why.text;
                    }
                    let _ = timeout(REFUSED_PAUSE, news.changed()).await;
                }
            }
        }
    }
}

impl RingTransport {
    /// Must be called inside the runtime of the core.
    pub(super) fn start(
        rings: Rings,
        context: PeerContext,
        arrivals: Arrivals,
        bulk: bool,
        metrics: &Arc<Metrics>,
    ) -> io::Result<RingTransport> {
        // Where long frames are put together.
        let bulk_thread = bulk.then(LinksThread::for_bulk).transpose()?;
        let bulk = bulk_thread.as_ref().map(|thread| LaneReceiver {
            arrivals: arrivals.for_bulk(),
            handle: thread.handle.clone(),
        });
        let me = RingReplica {
            context,
            bulk,
            messages: LaneReceiver {
                arrivals,
                handle: Handle::current(),
            },
            receiving: Mutex::new(Some(JoinSet::new())),
        };
        Ok(RingTransport {
            rings,
            me: Arc::new(me),
            routes: Vec::new(),
            metrics: Arc::clone(metrics),
            _bulk_thread: bulk_thread,
        })
    }
}

impl Transport for RingTransport {
    /// Where a peer is makes no difference: it is in this process or nowhere.
    fn meet(&mut self, peers: &[(ReplicaId, String)]) -> Vec<ReplicaId> {
        let contacts = &self.me.context.contacts;
        let stays = |peer: ReplicaId| peers.iter().any(|(id, _)| *id == peer);
        let is_gone = |(route, _): &mut (Arc<Route>, AbortHandle)| !stays(route.peer);
        let gone: Vec<_> = self.routes.extract_if(.., is_gone).collect();
        for (route, task) in &gone {
            task.abort();
            route.set(None);
            contacts.forget(route.peer);
        }
        for (peer, _) in peers {
            if self.routes.iter().any(|(route, _)| route.peer == *peer) {
                continue;
            }
            let metrics = self.metrics.peer(*peer);
            contacts.know(*peer, metrics.clone(), None);
            let route = Arc::new(Route {
                peer: *peer,
                metrics,
                link: Mutex::default(),
            });
            let keep = Arc::clone(&route).keep(self.rings.clone(), Arc::clone(&self.me));
            let task = tokio::spawn(keep).abort_handle();
            self.routes.push((route, task));
        }
        self.rings.enter(&self.me);
        gone.iter().map(|(route, _)| route.peer).collect()
    }

    /// Nobody is looked for who is not there.
    fn wait_for(&self, _former: &[ReplicaId]) {}

    fn send(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            let (to, version, is_bulk) = (frame.to, frame.version, frame.bulk);
            let Some(shared) = SharedFrame::of(frame.chunks) else {
                tracing::error!("a frame too large to send was dropped");
                self.metrics.oversized_frames.increment(1);
                continue;
            };
            for (route, _) in &self.routes {
                if to == Peers::All || to == Peers::One(route.peer) {
                    route.push(version, is_bulk, &shared);
                }
            }
        }
    }
}

impl Drop for RingTransport {
    fn drop(&mut self) {
        self.rings.leave(&self.me);
        // Whoever sends here learns from this that the link is down.
        drop(lock(&self.me.receiving).take());
        for (route, task) in &self.routes {
            task.abort();
            route.set(None);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
