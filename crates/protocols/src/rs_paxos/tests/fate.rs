//! What becomes of a cluster's replicas: they crash and come back, and can be looked at.

use super::net::Net;
use crate::shared::led::Led;
use quorate_core::{EntryId, Outcome, RequestId};
use quorate_testkit::Cluster;

impl Net {
    /// The process comes back with its disk, which gets done again.
    pub(super) fn restart(&mut self, me: usize) {
        self.nodes[me].is_stuck = false;
        Cluster::restart(self, me);
    }

    /// Ids in the log of a replica; `None` is a no-op.
    pub(super) fn names(&self, me: usize) -> Vec<Option<EntryId>> {
        self.nodes[me].names()
    }

    /// How often a request is in the log of a replica.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        self.nodes[me].times(request)
    }

    pub(super) fn leads(&self, me: usize) -> bool {
        let machine = self.nodes[me].machine.as_ref();
        machine.is_some_and(Led::is_leader)
    }

    pub(super) fn votes(&self, me: usize) -> bool {
        self.nodes[me].is_serving()
    }

    pub(super) fn outcome(&self, me: usize, request: RequestId) -> Option<Outcome> {
        let mut replies = self.nodes[me].replies.iter();
        replies
            .find(|(id, _)| *id == request)
            .map(|(_, outcome)| outcome.clone())
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.watch.sent.get(name).copied().unwrap_or(0)
    }
}
