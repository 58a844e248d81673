//! What a protocol around this machine asks of it, and gives it to order.

use super::Replica;
use super::messages::{Message, Record};
use super::queue::EntryName;
use super::queue::Offer;
use crate::shared::under_way::UnderWay;
use quorate_core::{Entry, EntryId, MemberSet, Now, Out, Peers, Slot};

impl Replica {
    /// The first slot not delivered.
    pub(crate) fn next(&self) -> Slot {
        self.ap
    }

    /// Whether an entry is undecided here, and may be proposed.
    pub(crate) fn holds(&self, id: EntryId) -> bool {
        self.pool.holds(id)
    }

    /// Whether an entry is decided.
    pub(crate) fn is_done(&self, id: EntryId) -> bool {
        self.done.entries.contains(id)
    }

    /// The undecided entries that may be proposed.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = &Entry> {
        let ids = self.pool.oldest_first();
        ids.filter_map(|id| self.pool.get(id))
    }

    /// A name and a stamp for an entry that is formed outside.
    pub(crate) fn name_entry(&mut self, now: Now) -> EntryName {
        self.names.next(now.clock_ns)
    }

    /// Whether a replica that lost its promises has something else to wait for than slots.
    pub(crate) fn delay_rejoin(&mut self, is_delayed: bool) {
        self.is_rejoin_delayed = is_delayed;
    }

    /// Moves a recovery on that waited for something else.
    pub(crate) fn rejoin_further(&mut self, out: &mut Out<Self>) {
        self.recover_further(out);
    }

    /// An own entry may be ordered from here on, whatever becomes of its origin. Nobody is told before
    /// that is written, since a later life must know of it.
    pub(crate) fn order(&mut self, now: Now, entry: Entry, out: &mut Out<Self>) {
        let (id, stamp_ns) = (entry.id, entry.stamp_ns);
        let record = entry.clone();
        out.persist(Record::Batch { entry: record });
        let message = entry.clone();
        out.send(Peers::All, Message::Batch { entry: message });
        self.pool.insert(entry, stamp_ns, self.config.me, true);
        self.freeze(now, id, stamp_ns, out);
        self.offer_foreign(id);
        self.run_to_fixpoint(now, out);
    }

    /// An own entry is formed outside.
    pub(super) fn offer_foreign(&mut self, id: EntryId) {
        self.offers.push(Offer {
            id,
            held_by: MemberSet::only(self.config.me),
            fresh: true,
            attached: UnderWay::default(),
            is_foreign: true,
            reads: Vec::new(),
        });
    }
}
