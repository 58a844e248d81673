//! Delivering what is committed, and what the host brought from elsewhere.

use super::Replica;
use super::log::Item;
use super::mutants::Fault;
use super::replica::Status;
use crate::shared::decided::DecidedSet;
use quorate_core::{Base, EntryId, Event, Out, Slot};

impl Replica {
    /// Delivers what is committed.
    pub(super) fn deliver(&mut self, out: &mut Out<Self>) {
        while self.status == Status::Normal
            && self.ap < self.cp
            && let Some(item) = self.log.items.pop_front()
        {
            let (id, slot) = (item.tup.id, self.ap);
            self.log.slots.remove(&id);
            let outcome = self.lead.outcomes.remove(&slot);
            let is_said = outcome.is_none_or(|outcome| outcome.is_said() && self.is_counted(id));
            let to_tell = (!is_said).then(|| item.body.clone());
            let entry = item.body.entry;
            let is_new = !self.done.contains(id);
            if !is_new {
                out.emit(Event::Branch("double decision skipped"));
            }
            let entry = is_new.then_some(entry);
            self.done.advance(slot, entry.as_ref());
            self.ap = slot.next();
            self.forget(id);
            self.watch.moved();
            out.deliver(slot, entry);
            if let Some(body) = to_tell {
                // Its gateway waits for results, and nobody had any before.
                self.tell(id.origin, &body, out);
            }
        }
    }

    /// An entry is decided: nobody waits for it any more.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.take_unsynced(id);
        self.early.remove(id);
        self.bodies.remove(id);
        self.written.remove(&id);
        self.gateway.remove(id);
        self.end_count(id);
    }

    /// The host caught up: what is before `next` is decided, maybe by a later view.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.ap {
            return;
        }
        let leads = self.leads();
        let end = self.end();
        let gone = (next.0 - self.ap.0).min(self.log.items.len() as u64) as usize;
        let gone: Vec<Item> = self.log.items.drain(..gone).collect();
        self.log.slots.retain(|_, slot| *slot >= next);
        self.done = base;
        self.ap = next;
        self.cp = self.cp.max(next);
        self.following.placed = self.following.placed.split_off(&next);
        self.lead.outcomes = self.lead.outcomes.split_off(&next);
        self.watch.moved();
        for id in self.decided_here() {
            self.forget(id);
        }
        for item in gone {
            // A later view may have decided others there.
            self.adopt(item.body);
        }
        if self.config.touches.is_some() && !self.config.faults.is(Fault::KeepReadPlaces) {
            // It may also have moved what commutes.
            self.reads.start_over();
        }
        if next > end {
            self.is_unvouched = true;
            self.log.sums = None;
        }
        if leads {
            // Only a later view can have decided more than the leader of this one.
            out.emit(Event::Branch("leader overtaken"));
            return self.start_change(self.view + 1, out);
        }
        self.go_on(out);
    }

    /// What is kept here of entries that are decided.
    fn decided_here(&self) -> Vec<EntryId> {
        let all = self.written.iter().chain(self.gateway.pending.keys());
        let all = all
            .copied()
            .chain(self.unsynced.ids())
            .chain(self.bodies.ids())
            .chain(self.early.ids());
        all.filter(|id| self.done.contains(*id)).collect()
    }

    /// Something came that others waited for: bodies, or decided slots.
    pub(super) fn go_on(&mut self, out: &mut Out<Self>) {
        match self.status {
            Status::Normal => self.sync_further(out),
            Status::ViewChange | Status::Recovering => {
                if let Some((from, start)) = self.change.pending.take() {
                    self.on_start_view(from, start, out);
                }
                self.try_start(out);
            }
        }
    }
}
