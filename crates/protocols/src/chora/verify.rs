//! How the main log grows (`advance()`): in order, and nowhere else.

use super::Replica;
use super::messages::{Logged, Record, Value};
use super::mutants::Fault;
use quorate_core::{Event, Out, Slot};

impl Replica {
    /// Verifies and appends what can be, in order, then commits what can be.
    pub(super) fn advance(&mut self, out: &mut Out<Self>) {
        if self.config.faults.is(Fault::VerifyOutOfOrder) {
            self.jump_over_unverified(out);
        }
        let end = self.worth_until();
        while self.verified < end
            && let Some(next) = self.pending.remove(&self.verified)
        {
            let is_same = |logged: &Logged| logged.eview == next.eview;
            if !self.log.get(self.verified).is_some_and(is_same) {
                self.append(next, out);
            }
            self.verified = self.verified.next();
        }
        self.try_commit(out);
    }

    /// The first slot that need not be verified yet: slots at the end of what is here that hold nothing go
    /// with the next one that does, and take no flush of their own. Nobody waits for them: they are behind
    /// all that is known to be proposed.
    pub(super) fn worth_until(&self) -> Slot {
        let mut end = self.verified;
        let waiting = self.pending.range(self.verified..);
        for ((slot, logged), at) in waiting.zip(self.verified.0..) {
            if slot.0 != at {
                break;
            }
            if *slot < self.log.end() || logged.value != Value::Noop {
                end = slot.next();
            }
        }
        end
    }

    /// What the paper does: what comes goes into the one log there is, and a slot that
    /// was received in this view always matches.
    fn jump_over_unverified(&mut self, out: &mut Out<Self>) {
        while let Some(next) = self.pending.remove(&self.log.end()) {
            self.append(next, out);
        }
        let is_own = |logged: &&Logged| logged.eview == self.view;
        if let Some(last) = self.log.entries().filter(is_own).last() {
            self.verified = self.verified.max(last.slot.next());
        }
        self.pending = self.pending.split_off(&self.verified);
    }

    /// Appends an entry to the main log, in place of what is there and behind it.
    pub(super) fn append(&mut self, logged: Logged, out: &mut Out<Self>) {
        self.cut(logged.slot, out);
        if self.is_voting() {
            let lsn = out.persist(Record::Append(logged.clone()));
            self.disk.append(lsn, logged.slot);
        }
        self.log.append(logged);
    }

    /// Cuts the main log. What was written of it is overwritten by what is appended next; until then a
    /// restart may bring it back, unverified.
    pub(super) fn cut(&mut self, from: Slot, out: &mut Out<Self>) {
        if from < self.log.end() {
            out.emit(Event::Branch("tail cut"));
            self.log.truncate(from);
            self.disk.cut(from);
        }
    }
}
