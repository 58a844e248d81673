//! What of the log is durable.

use quorate_core::{Lsn, Slot};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// How far the log of a replica survives a crash.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Slots appended and not durable, each with its record.
    unflushed: VecDeque<(Lsn, Slot)>,
    /// The first slot not durable.
    end: Slot,
    /// The last record known to be durable.
    durable: Lsn,
}

impl Hash for Disk {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (lsn, slot) in &self.unflushed {
            (lsn.0 - self.durable.0, slot).hash(to);
        }
        self.end.hash(to);
    }
}

impl Disk {
    /// Every slot before `end` is durable, and so is every record up to `durable`.
    pub(super) fn new(end: Slot, durable: Lsn) -> Disk {
        Disk {
            unflushed: VecDeque::new(),
            end,
            durable,
        }
    }

    /// The first slot not durable.
    pub(super) fn end(&self) -> Slot {
        self.end
    }

    /// The last record known to be durable.
    pub(super) fn durable(&self) -> Lsn {
        self.durable
    }

    /// Whether a record survives a crash.
    pub(super) fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable
    }

    /// A slot was appended with a record.
    pub(super) fn append(&mut self, lsn: Lsn, slot: Slot) {
        self.unflushed.push_back((lsn, slot));
    }

    /// Every record up to `lsn` survives a crash.
    pub(super) fn flushed(&mut self, lsn: Lsn) {
        self.durable = self.durable.max(lsn);
        let is_done = |(written, _): &mut (Lsn, Slot)| *written <= lsn;
        while let Some((_, slot)) = self.unflushed.pop_front_if(is_done) {
            self.end = self.end.max(slot.next());
        }
    }

    /// The log was cut from a slot on.
    pub(super) fn cut(&mut self, from: Slot) {
        self.unflushed.retain(|(_, slot)| *slot < from);
        self.end = self.end.min(from);
    }

    /// Every slot before `end` counts as durable, and nothing behind it does.
    pub(super) fn restart(&mut self, end: Slot) {
        self.unflushed.clear();
        self.end = end;
    }

    /// Every slot before `end` counts as durable.
    pub(super) fn extend(&mut self, end: Slot) {
        self.end = self.end.max(end);
    }

    /// The host caught up: the log holds these slots, and what it held before is durable elsewhere. What is
    /// still written of another lineage counts for nothing.
    pub(super) fn install(&mut self, log: Range<Slot>) {
        self.unflushed.retain(|(_, slot)| log.contains(slot));
        self.end = self.end.max(log.start).min(log.end);
    }
}
