//! What a relay asks of its replica.

use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_redis_effects::StreamState;
use std::future::Future;
use std::pin::Pin;

/// An answer under way.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A replica as its relay needs it.
pub trait Orders: Send {
    /// Orders a command; `None` if what became of it is unknown, or it was not taken.
    fn submit(&self, body: Bytes) -> Pending<Option<Bytes>>;

    /// The state of the stream, as a quorum has it; `None` if there is none.
    fn read(&self) -> Pending<Option<StreamState>>;

    /// The replica among its peers; `None` if it does not answer.
    fn look(&self) -> Pending<Option<Look>>;
}

/// A replica among its peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Look {
    /// The order among those that claim: 0 for the one that claims first.
    pub rank: u32,
    /// How many replicas there are.
    pub replicas: u32,
    /// Every other replica, and whether the link to it is down.
    pub peers: Vec<(ReplicaId, bool)>,
}
