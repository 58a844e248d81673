//! What peers did, on its way to the core.

use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_host::WireVersion;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Arrivals that may wait for the core, and how many KiB of frames among them.
const ARRIVALS_MAX: usize = 1024;
const ARRIVED_KIB_MAX: u32 = 128 << 10;

/// What a peer did: it sent a frame, or its link changed.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A peer sent a frame.
    Frame {
        /// The peer that sent the frame.
        from: ReplicaId,
        /// The bytes of the frame.
        payload: Bytes,
        /// The frame's share of the bytes that may wait; given back when it is dropped.
        share: OwnedSemaphorePermit,
    },
    /// The link to it came up, in the version agreed on, or went down.
    Link {
        /// The peer at the other end of the link.
        peer: ReplicaId,
        /// In which version frames to it have a chance, if they have one.
        version: Option<WireVersion>,
    },
}

/// The connections' end of the queue to the core.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    queue: mpsc::Sender<Arrival>,
    budget: Arc<Semaphore>,
}

impl Arrivals {
    /// A queue, and the end the core drains.
    pub(crate) fn new() -> (Arrivals, mpsc::Receiver<Arrival>) {
        let (queue, receiver) = mpsc::channel(ARRIVALS_MAX);
        let budget = Arc::new(Semaphore::new(ARRIVED_KIB_MAX as usize));
        (Arrivals { queue, budget }, receiver)
    }

    /// A handle to this queue with as much room again for the bytes of bulk frames, which may not take all the room
    /// of the others.
    pub(super) fn for_bulk(&self) -> Arrivals {
        Arrivals {
            budget: Arc::new(Semaphore::new(ARRIVED_KIB_MAX as usize)),
            ..self.clone()
        }
    }

    /// Waits while too much waits already, which makes the peer's socket wait in turn. `None` when
    /// the core is gone.
    pub(super) async fn frame(&self, from: ReplicaId, payload: Bytes) -> Option<()> {
        let kib = u32::try_from(payload.len() >> 10).unwrap_or(u32::MAX);
        let share = kib.saturating_add(1).min(ARRIVED_KIB_MAX);
        let share = Arc::clone(&self.budget)
            .acquire_many_owned(share)
            .await
            .ok()?;
        self.queue
            .send(Arrival::Frame {
                from,
                payload,
                share,
            })
            .await
            .ok()
    }

    pub(super) async fn link(&self, peer: ReplicaId, version: Option<WireVersion>) {
        // Without a core there is nobody to tell.
        let _ = self.queue.send(Arrival::Link { peer, version }).await;
    }
}
