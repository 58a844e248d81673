//! What of the log is durable.

use crate::shared::disk::Disk;
use quorate_core::{Lsn, Slot};
use std::ops::Range;

/// How far the log of a replica survives a crash.
#[derive(Clone, Hash, Debug)]
pub(super) struct LogDisk {
    /// The slots appended whose records are not durable.
    appended: Disk<Slot>,
    /// The first slot not durable.
    end: Slot,
}

impl LogDisk {
    /// Every slot before `end` is durable, and so is every record up to `durable`.
    pub(super) fn new(end: Slot, durable: Lsn) -> LogDisk {
        let appended = Disk::at_start(durable);
        LogDisk { appended, end }
    }

    /// The first slot not durable.
    pub(super) fn end(&self) -> Slot {
        self.end
    }

    /// The last record known to be durable.
    pub(super) fn durable(&self) -> Lsn {
        self.appended.durable()
    }

    /// Whether a record survives a crash.
    pub(super) fn is_durable(&self, lsn: Lsn) -> bool {
        self.appended.is_durable(lsn)
    }

    /// A slot was appended with a record.
    pub(super) fn append(&mut self, lsn: Lsn, slot: Slot) {
        self.appended.push(lsn, slot);
    }

    /// Every record up to `lsn` survives a crash.
    pub(super) fn flushed(&mut self, lsn: Lsn) {
        self.appended.confirm(lsn);
        while let Some(slot) = self.appended.pop_durable() {
            self.end = self.end.max(slot.next());
        }
    }

    /// The log was cut from a slot on.
    pub(super) fn cut(&mut self, from: Slot) {
        self.appended.retain(|slot| *slot < from);
        self.end = self.end.min(from);
    }

    /// Every slot before `end` counts as durable, and nothing behind it does.
    pub(super) fn restart(&mut self, end: Slot) {
        self.appended.clear();
        self.end = end;
    }

    /// Every slot before `end` counts as durable.
    pub(super) fn extend(&mut self, end: Slot) {
        self.end = self.end.max(end);
    }

    /// The host caught up: the log holds these slots, and what it held before is durable elsewhere. What is
    /// still written of another lineage counts for nothing.
    pub(super) fn install(&mut self, log: Range<Slot>) {
        self.appended.retain(|slot| log.contains(slot));
        self.end = self.end.max(log.start).min(log.end);
    }
}
