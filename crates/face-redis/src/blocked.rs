//! Requests whose clients wait for an element.

use crate::pop::Pop;
use crate::waiters::{Place, Waiter};
use bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;

/// A request whose client waits; nothing that it sends meanwhile is looked at.
#[derive(Debug)]
pub(crate) struct Blocked {
    pub(crate) pop: Pop,
    /// The place among those who wait on this replica.
    pub(crate) place: Place,
    pub(crate) deadline: Option<Instant>,
    /// Whether the client does not want to hear the reply.
    pub(crate) is_muted: bool,
}

impl Blocked {
    /// What calls the client, and when its time is over.
    pub(crate) fn awaited(&self) -> (Arc<Waiter>, Option<Instant>) {
        (Arc::clone(&self.place.waiter), self.deadline)
    }

    /// Bytes that are kept of the request.
    pub(crate) fn bytes(&self) -> usize {
        let call: usize = self.pop.call.iter().map(Bytes::len).sum();
        call + self.place.bytes()
    }
}
