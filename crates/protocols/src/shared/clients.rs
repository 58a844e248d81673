//! What clients of a replica wait for: commands without an entry, own entries on their way to a slot, and reads.

use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::decided::DecidedSet;
use crate::shared::entry_names::EntryNames;
use crate::shared::offers::Offers;
use crate::shared::reads::ReadQueries;
use crate::shared::seating::{Batches, Seating};
use quorate_core::{Command, Entry, EntryId, Machine, Now, Out, Outcome, RequestId, Slot};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// What clients of a replica wait for. `A` is what members have answered to a question about reads.
#[derive(Clone, Debug)]
pub(crate) struct Clients<A> {
    /// Commands without an entry.
    pub(crate) backlog: Backlog,
    /// Own entries not delivered.
    pub(crate) offers: Offers,
    /// Reads; none goes through the log.
    pub(crate) reads: ReadQueries<A>,
    names: EntryNames,
    patience: Patience,
}

impl<A: Hash> Hash for Clients<A> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.backlog, &self.offers, &self.reads).hash(to);
        (self.names, self.patience).hash(to);
    }
}

impl<A> Clients<A> {
    /// A replica whose clients have asked for nothing yet.
    pub(crate) fn new(seating: &Seating) -> Self {
        Clients {
            backlog: Backlog::default(),
            offers: Offers::default(),
            reads: ReadQueries::default(),
            names: EntryNames::new(seating.my_id(), seating.boot),
            patience: Patience::default(),
        }
    }

    /// Whether anybody waits.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.backlog.is_empty() || !self.offers.is_empty() || self.reads.count() > 0
    }

    /// How many more requests may wait.
    pub(crate) fn room(&self, batches: &Batches) -> usize {
        self.reads.room(&self.backlog, &batches.queue)
    }

    /// Takes commands of clients, as far as there is room.
    pub(crate) fn admit<M: Machine>(
        &mut self,
        commands: Vec<Command>,
        batches: &Batches,
        out: &mut Out<M>,
    ) {
        let (reads, backlog) = (&mut self.reads, &mut self.backlog);
        reads.admit(commands, backlog, &batches.queue, out);
    }

    /// Refuses what nobody waits for any more, of what is in no entry and in no question.
    pub(crate) fn withdraw<M: Machine>(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<M>) {
        self.reads.refuse_withdrawn(&mut self.backlog, ids, out);
    }

    /// Whether something waits that an entry may be formed of, while few enough are under way.
    pub(crate) fn may_form_entry(&self, batches: &Batches) -> bool {
        self.offers.len() < batches.outstanding && !self.backlog.is_empty()
    }

    /// Forms an entry of whatever waits: under load that is what came while its predecessors were decided.
    pub(crate) fn form_entry(&mut self, batches: &Batches, now: Now) -> Entry {
        let batch = self.backlog.fill(batches.commands_max, batches.bytes_max);
        batch.finish(self.names.next(), now.clock_ns)
    }

    /// An entry was delivered; the leader that ordered it may be this replica.
    pub(crate) fn note_delivered(&mut self, id: EntryId, is_led_here: bool, now_ns: u64) {
        self.offers.settle(id, is_led_here, now_ns);
        self.patience.note_served();
    }

    /// These entries are delivered.
    pub(crate) fn drop_done(&mut self, done: &DecidedSet) {
        self.offers.drop_done(done);
        self.patience.note_served();
    }

    /// Answers the reads under way: they see what is before this slot.
    pub(crate) fn answer_reads<M: Machine>(&mut self, mark: Slot, out: &mut Out<M>) {
        let Some(query) = self.reads.take_if(|_| true) else {
            return;
        };
        for id in &query.reads {
            self.patience.note_served();
            out.reply(*id, Outcome::ReadAt(mark));
        }
    }

    /// Has the patience timer run for so many ns while clients wait.
    pub(crate) fn watch<M: Machine>(&mut self, timer: M::Timer, period_ns: u64, out: &mut Out<M>) {
        let are_waiting = self.are_waiting();
        self.patience.watch(are_waiting, timer, period_ns, out);
    }

    /// Requests have waited long. If none was served meanwhile, those in no entry are refused: they will not be
    /// executed.
    pub(crate) fn on_patience<M: Machine>(&mut self, out: &mut Out<M>) {
        if self.patience.is_over() {
            self.reads.refuse_with(&mut self.backlog, out);
        }
    }
}
