//! What waits for the disk.

use super::messages::Message;
use crate::shared::disk::{Disk, UntilDurable};
use quorate_core::{Lsn, Slot, Wire};
use std::hash::{Hash, Hasher};

/// What waits for records of a replica to be durable.
#[derive(Clone, Debug)]
pub(super) struct ReplicaDisk {
    /// Ends of the leader's own log: of each record the first slot behind it.
    log_ends: Disk<Slot>,
    /// Messages to the gateway inside this replica.
    to_own_gateway: UntilDurable<Message>,
}

impl Hash for ReplicaDisk {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.log_ends.hash(to);
        for (distance, message) in self.to_own_gateway.distances(self.durable()) {
            (distance, message.to_bytes()).hash(to);
        }
    }
}

impl ReplicaDisk {
    /// Nothing waits; every record up to `durable` is durable.
    pub(super) fn new(durable: Lsn) -> ReplicaDisk {
        ReplicaDisk {
            log_ends: Disk::at_start(durable),
            to_own_gateway: UntilDurable::default(),
        }
    }

    /// The last record known to be durable.
    pub(super) fn durable(&self) -> Lsn {
        self.log_ends.durable()
    }

    /// Whether a record survives a crash.
    pub(super) fn is_durable(&self, lsn: Lsn) -> bool {
        self.log_ends.is_durable(lsn)
    }

    /// The leader's log is written up to a slot with this record.
    pub(super) fn append(&mut self, lsn: Lsn, end: Slot) {
        self.log_ends.push(lsn, end);
    }

    /// The replica leads no more: how far its log is durable does not count.
    pub(super) fn forget_log(&mut self) {
        self.log_ends.clear();
    }

    /// Every record up to `lsn` survives a crash. Gives the ends of the leader's log that do, in order.
    pub(super) fn flushed(&mut self, lsn: Lsn) -> impl Iterator<Item = Slot> {
        self.log_ends.confirm(lsn);
        std::iter::from_fn(|| self.log_ends.pop_durable())
    }

    /// The gateway inside this replica may hear a message once a record is durable.
    pub(super) fn tell_own_gateway(&mut self, lsn: Lsn, message: Message) {
        self.to_own_gateway.push(lsn, message);
    }

    /// The next message that the gateway inside this replica may hear by now.
    pub(super) fn pop_for_own_gateway(&mut self) -> Option<Message> {
        let durable = self.durable();
        self.to_own_gateway.pop(durable)
    }
}
