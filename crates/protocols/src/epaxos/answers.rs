//! What clients are told: of own entries when all below them is decided, of reads when what they stand behind is
//! delivered.
//!
//! An answer at the commit of an entry would be too soon. Something that was not committed then may be below it, and
//! above an entry that is asked for afterwards; the three make a circle, in which names decide, and the later entry may
//! come first. When all below is decided, nothing that is asked for afterwards gets there. So everything below is
//! executed ahead of its delivery, in the order in which it will be delivered as far as that matters, and then the
//! entry. Orders are never executed ahead, nor is anything above one. An order that is not below the entry is above it,
//! for they conflict: no answer is lost behind the end of an epoch.

use super::Replica;
use super::mutants::Fault;
use super::state::Instance;
use bytes::Bytes;
use quorate_core::{Entry, EntryId, Out, Outcome, RequestId, Slot};
use std::collections::BTreeSet;

/// An own entry that is not delivered.
#[derive(Clone, Hash, Debug)]
pub(super) struct Offer {
    pub(super) id: EntryId,
    /// The requests of its commands.
    requests: Vec<RequestId>,
    /// Whether clients have their answers.
    is_answered: bool,
}

impl Replica {
    /// Clients wait for an own entry.
    pub(super) fn offer(&mut self, entry: &Entry) {
        let commands = entry.commands().filter_map(Result::ok);
        self.offers.push(Offer {
            id: entry.id,
            requests: commands.map(|command| command.id).collect(),
            is_answered: false,
        });
    }

    /// Has own entries executed whose clients wait, where all below them is decided.
    pub(super) fn execute_ahead(&mut self, out: &mut Out<Self>) {
        let waiting = self.offers.iter().filter(|offer| !offer.is_answered);
        let waiting: Vec<EntryId> = waiting.map(|offer| offer.id).collect();
        for id in waiting {
            let is_committed = self.instances.get(&id).is_some_and(Instance::is_committed);
            if is_committed && !self.ahead.contains(&id) {
                self.execute_to(id, out);
            }
        }
    }

    /// Has everything below an entry executed, and then the entry.
    fn execute_to(&mut self, id: EntryId, out: &mut Out<Self>) {
        let mut gone: BTreeSet<EntryId> = self.ahead.iter().copied().collect();
        let mut more = Vec::new();
        if self.fault(Fault::AnswerAtCommit) {
            more.push(id);
        }
        while !more.contains(&id) {
            let Some(run) = self.graph(&gone).run_to(id) else {
                return;
            };
            for next in run {
                gone.insert(next);
                more.push(next);
                if next == id {
                    break;
                }
            }
        }
        let all = more
            .iter()
            .map(|id| self.instances.get(id)?.in_its_place(*id));
        let Some(all) = all.collect::<Option<Vec<Entry>>>() else {
            return;
        };
        if all.iter().any(Entry::is_order) {
            return;
        }
        for (id, entry) in more.into_iter().zip(all) {
            let slot = Slot(self.next.0 + self.ahead.len() as u64);
            self.ahead.push_back(id);
            out.execute(slot, entry);
        }
    }

    /// An entry was executed behind all that is below it: that is what it comes to.
    pub(super) fn on_applied(
        &mut self,
        id: EntryId,
        slot: Slot,
        results: Vec<Bytes>,
        out: &mut Out<Self>,
    ) {
        let offer = self.offers.iter_mut().find(|offer| offer.id == id);
        let Some(offer) = offer.filter(|offer| !offer.is_answered) else {
            return;
        };
        if results.len() == offer.requests.len() {
            offer.is_answered = true;
            self.patience.note_served();
            for (request, result) in offer.requests.iter().zip(results) {
                out.reply(*request, Outcome::Applied(slot, result));
            }
        }
    }

    /// An instance is delivered in this slot, or was in one before it.
    pub(super) fn note_delivered(&mut self, id: EntryId, slot: Slot, out: &mut Out<Self>) {
        let before = self.offers.len();
        self.offers.retain(|offer| offer.id != id);
        if self.offers.len() < before {
            self.patience.note_served();
        }
        self.end_errands(id, Some(slot), out);
        if let Some(query) = self.reads.take_if(|behind| *behind == id) {
            self.patience.note_served();
            for read in query.reads {
                out.reply(read, Outcome::ReadAt(slot));
            }
        }
    }

    /// What reads were to stand behind is not ordered: they get another.
    pub(super) fn ask_again_behind(&mut self, id: EntryId) {
        if self.reads.answers() == Some(&id) {
            self.reads.start_over(std::iter::empty());
        }
    }
}
