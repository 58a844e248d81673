//! What can be seen of a host from outside.

mod explain;
mod group;
mod queues;

use super::Host;
use crate::api::{Counters, Limits};
use crate::decided::Lookup;
use crate::epochs::GroupState;
use crate::fragments::{Fragment, FragmentStore};
use crate::log::LogWriter;
use crate::payloads::Recoded;
use crate::position::Position;
pub use queues::Queue;
use quorate_core::{Application, EntryId, Epoch, Machine, PayloadId, ReplicaId, Seat, Slot};

/// What can be seen of a host from outside. Nothing changes by looking.
pub struct Look<'a, M: Machine, A: Application> {
    host: &'a Host<M, A>,
}

impl<M: Machine, A: Application> Clone for Look<'_, M, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine, A: Application> Copy for Look<'_, M, A> {}

impl<'a, M: Machine, A: Application> Look<'a, M, A> {
    pub(super) fn at(host: &'a Host<M, A>) -> Self {
        Look { host }
    }
}

impl<'a, M: Machine, A: Application> Look<'a, M, A> {
    /// When the next timer is due, on the monotonic clock in ns.
    #[must_use]
    pub fn next_wake(self) -> Option<u64> {
        self.host.context.timers.next()
    }

    /// The first slot not applied.
    #[must_use]
    pub fn applied(self) -> Slot {
        self.host.context.applier.next()
    }

    /// Whether the application has executed what is not decided yet: who looks at it sees more than
    /// there may be.
    #[must_use]
    pub fn is_ahead(self) -> bool {
        self.host.context.applier.speculation.is_any()
    }

    /// The application.
    #[must_use]
    pub fn app(self) -> &'a A {
        self.host.context.applier.app()
    }

    /// The machine; `None` while slots are missing that it knew to be decided.
    #[must_use]
    pub fn machine(self) -> Option<&'a M> {
        self.host.engine.machine()
    }

    /// How long values are, in bytes, that are best submitted as payloads; `None` if none are.
    #[must_use]
    pub fn payload_min(self) -> Option<usize> {
        self.host.payloads.min()
    }

    /// Sizes, as they were given.
    #[must_use]
    pub fn limits(self) -> &'a Limits {
        &self.host.context.limits
    }

    /// Whether this replica lacks fragments that it should have, or may.
    #[must_use]
    pub fn lacks_fragments(self) -> bool {
        // Those of former epochs stay.
        let may_have_any =
            self.host.payloads.min().is_some() || self.host.context.epoch().number > 1;
        may_have_any && self.host.payloads.is_lacking()
    }

    /// Live payloads of which this replica is known to lack its fragment.
    #[must_use]
    pub fn payloads_lacking(self) -> usize {
        self.host.payloads.lacking().len()
    }

    /// Those live payloads.
    pub fn lacking(self) -> impl Iterator<Item = PayloadId> {
        self.host.payloads.lacking()
    }

    /// Requests that wait for an answer.
    #[must_use]
    pub fn waiting(self) -> usize {
        self.host.waiting()
    }

    /// Totals since the host was opened.
    #[must_use]
    pub fn counters(self) -> Counters {
        let log = self.host.context.storage.log.as_ref();
        let (snapshots, installed) = self.host.transfer.snapshots.totals();
        Counters {
            noops: self.host.context.applier.noops_total,
            commands: self.host.context.applier.commands_total,
            duplicates: self.host.context.applier.duplicates_total,
            syncs: log.map_or(0, LogWriter::syncs_total),
            log_bytes: log.map_or(0, LogWriter::bytes_total),
            fragment_bytes: self
                .host
                .context
                .storage
                .fragments
                .as_ref()
                .map_or(0, FragmentStore::bytes_total),
            fragment_moved_bytes: (self.host.context.storage.fragments.as_ref())
                .map_or(0, FragmentStore::moved_bytes_total),
            snapshots,
            installed,
            ..self.host.context.effects.counters
        }
    }

    /// What an applied slot was decided for, while that is in memory: `Some(None)` is a no-op.
    #[must_use]
    pub fn decided(self, slot: Slot) -> Option<Option<EntryId>> {
        match self.host.context.storage.decided.lookup(slot) {
            Lookup::Ready(entry) => Some(entry.map(|entry| entry.id)),
            Lookup::OnDisk(_) | Lookup::Absent => None,
        }
    }

    /// The undecided entries of which there are records here.
    pub fn undecided_entries(self) -> impl Iterator<Item = EntryId> {
        self.host.context.storage.retained.undecided()
    }

    /// Whether an entry is here: undecided, or applied by a protocol that keeps track.
    #[must_use]
    pub fn has_entry(self, entry: EntryId) -> bool {
        self.host.context.storage.retained.entry(entry).is_some()
            || self.host.context.base_has(entry)
    }

    /// The first slot not applied, and a digest chained over everything applied before it and its
    /// results: equal on replicas that applied the same slots.
    #[must_use]
    pub fn digest(self) -> (Slot, u64) {
        (
            self.host.context.applier.next(),
            self.host.context.applier.digest(),
        )
    }

    /// The epoch that orders commands, as far as this replica knows.
    #[must_use]
    pub fn epoch(self) -> &'a Epoch {
        self.host.context.epoch()
    }

    /// What the group knows of itself.
    #[must_use]
    pub fn epochs(self) -> &'a GroupState {
        self.host.context.epochs()
    }

    /// Whether the newest epoch lists this replica in its present life.
    #[must_use]
    pub fn is_member(self) -> bool {
        self.host.context.is_member()
    }

    /// Whether this replica orders commands: it has all it needs of its past.
    #[must_use]
    pub fn is_serving(self) -> bool {
        self.host.engine.is_serving()
    }

    /// Whether this replica orders commands, and will do so in later epochs without being told what it forgot. Until
    /// then it counts among the members that have failed.
    #[must_use]
    pub fn has_recovered(self) -> bool {
        self.is_serving() && !self.host.transition.is_in_doubt()
    }

    /// Whether the machine is suspended and nothing that is decided is written.
    #[must_use]
    pub fn is_stalled(self) -> bool {
        self.host.context.storage.is_stalled
    }

    /// How far this replica is with the payloads that earlier epochs left. Those that died since they were
    /// counted are done.
    #[must_use]
    pub fn recoded(self) -> Recoded {
        self.host.payloads.recoded()
    }

    /// Members that must hold all of their fragments before the newest epoch is settled.
    #[must_use]
    pub fn members_to_settle(self) -> usize {
        self.host
            .payloads
            .members_to_settle(&self.host.context.applier)
    }

    /// The fragments of payloads that are here, in the order of payloads.
    pub fn fragments(self) -> impl Iterator<Item = &'a Fragment> {
        let fragments = self.host.context.storage.fragments.iter();
        fragments.flat_map(FragmentStore::fragments)
    }

    /// Bytes of the fragments that are here.
    #[must_use]
    pub fn fragment_live_bytes(self) -> u64 {
        let fragments = self.host.context.storage.fragments.as_ref();
        fragments.map_or(0, FragmentStore::live_bytes)
    }

    /// Bytes of log and fragments that no flush has taken yet.
    #[must_use]
    pub fn unwritten_bytes(self) -> usize {
        self.host.context.storage.unwritten_bytes()
    }

    /// How far this replica remembers the promises of a member to go: how often it lost them, and where in its log
    /// the last one since ends.
    #[must_use]
    pub fn remembers(self, peer: ReplicaId) -> Option<(u64, Position)> {
        let member = self.host.context.member(peer)?;
        let known = self.host.context.rollback.remembered(member)?;
        Some((known.progress.losses, known.progress.at))
    }

    /// How far the promises went that this replica started with, or lost last.
    #[must_use]
    pub fn began(self) -> (u64, Position) {
        let began = self.host.context.rollback.noted().began();
        (began.losses, began.at)
    }

    /// Whether this replica may have told peers how far its promises go, and asks them when it starts.
    #[must_use]
    pub fn claims(self) -> bool {
        self.host.context.rollback.has_claimed()
    }

    /// Whether nothing has left since the start: what is applied may be gone after a power failure, and
    /// nobody has seen it.
    #[must_use]
    pub fn is_silent(self) -> bool {
        self.host.outbox.is_silent()
    }

    /// The newest epoch's seat, while its machine waits to be started ([`Host::begin_epoch`]).
    #[must_use]
    pub fn next_seat(self) -> Option<Seat> {
        (self.host.transition).next_seat(&self.host.context)
    }
}
