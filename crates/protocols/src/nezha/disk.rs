//! What waits for the disk.

use super::messages::Message;
use quorate_core::{Lsn, Slot, Wire};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// What waits for records of a replica to be durable.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Positions of the leader's own log: the record, and the first slot behind it.
    pub(super) unflushed: VecDeque<(Lsn, Slot)>,
    /// What was said to the gateway inside this replica.
    pub(super) to_own_gateway: VecDeque<(Lsn, Message)>,
    /// The last record known to be durable.
    pub(super) durable: Lsn,
}

impl Hash for Disk {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (lsn, slot) in &self.unflushed {
            (lsn.0.saturating_sub(self.durable.0), slot).hash(to);
        }
        for (lsn, message) in &self.to_own_gateway {
            let waits = lsn.0.saturating_sub(self.durable.0);
            (waits, message.to_bytes()).hash(to);
        }
    }
}

impl Disk {
    /// Nothing waits; every record up to `durable` is durable.
    pub(super) fn new(durable: Lsn) -> Disk {
        Disk {
            unflushed: VecDeque::new(),
            to_own_gateway: VecDeque::new(),
            durable,
        }
    }

    /// Whether a record survives a crash.
    pub(super) fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable
    }

    /// Every record up to `lsn` survives a crash. Gives the ends of the leader's log that do, in order.
    pub(super) fn flushed(&mut self, lsn: Lsn) -> impl Iterator<Item = Slot> {
        self.durable = self.durable.max(lsn);
        let durable = self.durable;
        let unflushed = &mut self.unflushed;
        std::iter::from_fn(move || {
            let (_, end) = unflushed.pop_front_if(|(written, _)| *written <= durable)?;
            Some(end)
        })
    }

    /// The next thing that the own gateway may hear by now.
    pub(super) fn pop_for_own_gateway(&mut self) -> Option<Message> {
        let durable = self.durable;
        let is_durable = |(lsn, _): &mut (Lsn, Message)| *lsn <= durable;
        let (_, message) = self.to_own_gateway.pop_front_if(is_durable)?;
        Some(message)
    }
}
