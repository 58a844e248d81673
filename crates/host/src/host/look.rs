//! What can be seen of a host from outside.

use super::Host;
use crate::api::{Counters, Limits};
use crate::decided::Lookup;
use crate::fragments::FragmentStore;
use crate::log::LogWriter;
use quorate_core::{Application, Base, EntryId, Machine, PayloadId, Slot};

impl<M: Machine, A: Application> Host<M, A> {
    /// When the next timer is due, on the monotonic clock in ns.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.next()
    }

    /// The first slot not applied.
    #[must_use]
    pub fn applied(&self) -> Slot {
        self.applier.next()
    }

    /// Whether the application has executed what is not decided yet: who looks at it sees more than
    /// there may be.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.applier.speculation.is_any()
    }

    /// The application.
    #[must_use]
    pub fn app(&self) -> &A {
        self.applier.app()
    }

    /// The machine; `None` while slots are missing that it knew to be decided.
    #[must_use]
    pub fn machine(&self) -> Option<&M> {
        self.machine.as_ref()
    }

    /// How long values are, in bytes, that are best submitted as payloads; `None` if none are.
    #[must_use]
    pub fn payload_min(&self) -> Option<usize> {
        self.payload_min
    }

    /// Sizes, as they were given.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether this replica lacks fragments that it should have, or may.
    #[must_use]
    pub fn lacks_fragments(&self) -> bool {
        // Those of former epochs stay.
        let may_have_any = self.payload_min.is_some() || self.epoch().number > 1;
        may_have_any && self.payloads.is_lacking()
    }

    /// Live payloads of which this replica is known to lack its fragment.
    #[must_use]
    pub fn payloads_lacking(&self) -> usize {
        self.payloads.lacking().len()
    }

    /// Those live payloads.
    pub fn lacking(&self) -> impl Iterator<Item = PayloadId> {
        self.payloads.lacking()
    }

    /// Requests that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.requests.count() + self.payloads.readers()
    }

    /// Totals since the host was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let log = self.log.as_ref();
        let (snapshots, installed) = self.snapshots.totals();
        Counters {
            noops: self.applier.noops_total,
            commands: self.applier.commands_total,
            duplicates: self.applier.duplicates_total,
            syncs: log.map_or(0, LogWriter::syncs_total),
            log_bytes: log.map_or(0, LogWriter::bytes_total),
            bulk_bytes: self.bulk.as_ref().map_or(0, FragmentStore::bytes_total),
            bulk_moved_bytes: (self.bulk.as_ref()).map_or(0, FragmentStore::moved_bytes_total),
            snapshots,
            installed,
            ..self.counters
        }
    }

    /// What an applied slot was decided for, while that is in memory: `Some(None)` is a no-op.
    #[must_use]
    pub fn decided(&self, slot: Slot) -> Option<Option<EntryId>> {
        match self.decided.lookup(slot) {
            Lookup::Ready(entry) => Some(entry.map(|entry| entry.id)),
            Lookup::OnDisk(_) | Lookup::Absent => None,
        }
    }

    /// The undecided entries of which there are records here.
    pub fn undecided_entries(&self) -> impl Iterator<Item = EntryId> {
        self.retained.undecided()
    }

    /// Whether an entry is here: undecided, or applied by a protocol that keeps track.
    #[must_use]
    pub fn has_entry(&self, entry: EntryId) -> bool {
        self.retained.entry(entry).is_some() || self.base_has(entry)
    }

    /// Whether an entry was applied, where the protocol keeps track.
    pub(crate) fn base_has(&self, entry: EntryId) -> bool {
        self.base.contains(entry)
    }

    /// The first slot not applied, and a digest chained over everything applied before it and its
    /// results: equal on replicas that applied the same slots.
    #[must_use]
    pub fn digest(&self) -> (Slot, u64) {
        (self.applier.next(), self.applier.digest())
    }
}
