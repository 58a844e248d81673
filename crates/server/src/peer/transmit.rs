//! What is sent, on its way from the core to the sockets: at once, or, in the `split` layout, by a thread of its own at
//! the other end of a ring.

use super::gateways::Gateways;
use super::outgoing::{Framed, Shared};
use crate::metrics::Metrics;
use crate::polling::ThreadPlacement;
use quorate_core::{Peers, ReplicaId};
use quorate_host::Frame;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::{hint, io, thread};

/// Turns whose frames may wait for the thread that sends.
const TURNS_MAX: usize = 1024;

/// The connections that frames go to, by lane.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    pub(super) messages: Vec<(ReplicaId, Arc<Shared>)>,
    /// For frames with bulk; empty where no protocol has any.
    pub(super) bulk: Vec<(ReplicaId, Arc<Shared>)>,
    /// The remote gateways that are connected.
    pub(super) gateways: Arc<Gateways>,
    pub(super) metrics: Arc<Metrics>,
}

impl Routes {
    /// Queues frames for their peers.
    fn push(&self, frames: &[Frame]) {
        for frame in frames {
            let Some(framed) = Framed::of(&frame.chunks) else {
                // The host keeps entries below the limit; a frame beyond it would be refused there.
                tracing::error!(bytes = frame.len(), "a frame too large to send was dropped");
                self.metrics.oversized_frames.increment(1);
                continue;
            };
            if let Peers::One(to) = frame.to
                && to.is_gateway()
            {
                self.gateways.push(to, frame.version, &framed);
                continue;
            }
            for route in self.of(frame) {
                route.push(frame.version, &framed);
            }
        }
    }

    /// Everything for one peer leaves in as few system calls as possible.
    fn flush(&self) {
        for (_, route) in self.messages.iter().chain(&self.bulk) {
            route.flush();
        }
        self.gateways.flush();
    }

    /// Queues the frames of a turn and gives the kernel all it takes.
    pub(super) fn send(&self, frames: &[Frame]) {
        self.push(frames);
        self.flush();
    }

    /// Frames that are not sent are lost, as protocols expect of links.
    fn lose(&self, frames: &[Frame]) {
        for frame in frames {
            self.of(frame).for_each(Shared::lost);
        }
    }

    fn of<'a>(&'a self, frame: &Frame) -> impl Iterator<Item = &'a Shared> {
        let to = frame.to;
        let routes = if frame.bulk {
            &self.bulk
        } else {
            &self.messages
        };
        let is_for = move |peer: &ReplicaId| to == Peers::All || to == Peers::One(*peer);
        let routes = routes.iter().filter(move |(peer, _)| is_for(peer));
        routes.map(|(_, route)| &**route)
    }
}

/// The thread that sends; it ends with this.
#[derive(Debug)]
pub(crate) struct Tx(SyncSender<TransmitOrder>);

#[derive(Debug)]
enum TransmitOrder {
    Routes(Routes),
    Frames(Vec<Frame>),
}

impl Tx {
    pub(crate) fn start(place: ThreadPlacement) -> io::Result<Tx> {
        let (ring, orders) = sync_channel(TURNS_MAX);
        let work = move || {
            place.take();
            transmit(&orders, place.is_busy);
        };
        thread::Builder::new().name("tx".into()).spawn(work)?;
        Ok(Tx(ring))
    }

    /// Sends frames by these routes from now on.
    pub(super) fn meet(&self, routes: Routes) {
        // It only ends after this.
        let _ = self.0.send(TransmitOrder::Routes(routes));
    }

    pub(super) fn send(&self, frames: Vec<Frame>, routes: &Routes) {
        if let Err(TrySendError::Full(TransmitOrder::Frames(frames))) =
            self.0.try_send(TransmitOrder::Frames(frames))
        {
            routes.lose(&frames);
        }
    }
}

/// All that waits is queued before anything leaves: it goes together.
fn transmit(orders: &Receiver<TransmitOrder>, is_busy: bool) {
    let mut routes: Option<Routes> = None;
    let mut is_queued = false;
    loop {
        let order = match orders.try_recv() {
            Ok(order) => order,
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if std::mem::take(&mut is_queued) => {
                routes.iter().for_each(Routes::flush);
                continue;
            }
            Err(TryRecvError::Empty) if is_busy => {
                hint::spin_loop();
                continue;
            }
            Err(TryRecvError::Empty) => match orders.recv() {
                Ok(order) => order,
                Err(_) => return,
            },
        };
        match order {
            TransmitOrder::Routes(new) => routes = Some(new),
            TransmitOrder::Frames(frames) => {
                is_queued = true;
                routes.iter().for_each(|routes| routes.push(&frames));
            }
        }
    }
}
