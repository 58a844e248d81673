//! What clients sent: commands waiting for an entry, and own entries on their way to a slot.

use super::Replica;
use super::messages::Timer;
use crate::shared::admission::refusal;
use quorate_core::{Class, Command, Entry, Now, Out, Outcome, Refusal, RequestId, Slot};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// An own entry that is not delivered.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) entry: Entry,
    /// The own slot in which it was suggested; `None` if that slot holds something else.
    pub(super) slot: Option<Slot>,
}

impl Hash for Offer {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.entry.id, self.slot).hash(to);
    }
}

impl Replica {
    /// Takes what waits, or refuses it.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            let is_read = command.class == Class::Read;
            match refusal(&command, self.queue_room()) {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None if is_read => self.reads.wait(command.id),
                // It has no lane to put it in, and nobody to give it to.
                None if self.is_silent => {
                    out.reply(command.id, Outcome::Refused(Refusal::NotServing));
                }
                None => self.backlog.push(command),
            }
        }
    }

    /// Refuses what nobody waits for any more, of what is in no entry and in no question.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        self.reads.refuse_withdrawn(&mut self.backlog, ids, out);
    }

    /// How many more requests may wait.
    pub(super) fn queue_room(&self) -> usize {
        self.reads.room(&self.backlog, &self.config.batches.queue)
    }

    /// Whether an own entry waits for a slot, or may be formed.
    pub(super) fn wants_slot(&self) -> bool {
        self.offers.iter().any(|offer| offer.slot.is_none()) || self.may_form_entry()
    }

    /// Whether something waits that an entry may be formed of.
    fn may_form_entry(&self) -> bool {
        self.offers.len() < self.config.batches.outstanding && !self.backlog.is_empty()
    }

    /// The entry for an own slot: one that lost its own, or one of whatever waits. Under load an entry is what
    /// came while its predecessors were decided.
    pub(super) fn take_entry(&mut self, slot: Slot, now: Now) -> Option<Entry> {
        if let Some(lost) = self.offers.iter_mut().find(|offer| offer.slot.is_none()) {
            lost.slot = Some(slot);
            return Some(lost.entry.clone());
        }
        if !self.may_form_entry() {
            return None;
        }
        let batches = &self.config.batches;
        let batch = self.backlog.fill(batches.commands_max, batches.bytes_max);
        let entry = batch.finish(self.names.next(), now.clock_ns);
        self.offers.push(Offer {
            entry: entry.clone(),
            slot: Some(slot),
        });
        Some(entry)
    }

    /// Whether clients of this replica wait.
    pub(super) fn has_requests(&self) -> bool {
        !self.backlog.is_empty() || !self.offers.is_empty() || self.reads.count() > 0
    }

    /// Has the patience timer run while clients wait.
    pub(super) fn watch_patience(&mut self, out: &mut Out<Self>) {
        let (are_waiting, period_ns) = (self.has_requests(), self.config.delays.patience_ns);
        self.patience
            .watch(are_waiting, Timer::Patience, period_ns, out);
    }

    /// Requests have waited long. If none was served meanwhile, those in no entry are refused: they will not be
    /// executed.
    pub(super) fn on_patience(&mut self, out: &mut Out<Self>) {
        if self.patience.is_over() {
            self.reads.refuse_with(&mut self.backlog, out);
        }
    }
}
