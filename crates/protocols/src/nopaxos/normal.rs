//! Normal operation: stamped entries are placed in the order of their numbers, and replied to.

use super::Replica;
use super::messages::{Message, Record, Reply, Value};
use super::replica::Written;
use crate::shared::decided::DecidedSet;
use bytes::Bytes;
use quorate_core::{Base, Entry, EntryId, Event, MemberIndex, Out, Peers, Slot};

impl Replica {
    /// A stamped entry. Sessions that are over do not count any more, whatever their sequencers stamp (N-S7).
    pub(super) fn on_marked(
        &mut self,
        from: MemberIndex,
        session: u64,
        number: u64,
        entry: Entry,
        out: &mut Out<Self>,
    ) {
        if !self.is_orderable(&entry) {
            return self.misbehaved(from, "a stamped entry that cannot be ordered", out);
        }
        if session < self.view.session {
            out.emit(Event::Branch("stamp of an old session"));
            return self.say_view(from, out);
        }
        self.join_session(session, out);
        self.keep_marked(number, entry, out);
    }

    /// Keeps a stamped entry of this session until its turn comes.
    pub(super) fn keep_marked(&mut self, number: u64, entry: Entry, out: &mut Out<Self>) {
        let first = match self.has_session() {
            true => self.log.number(self.log.end()),
            false => 0,
        };
        if number >= self.first_number().saturating_add(self.config.slots_max) {
            out.emit(Event::Branch("too far ahead"));
        } else if number >= first {
            self.early.insert(number, entry);
        }
    }

    /// Whether the entry whose turn it is is here and can be placed. While the leader waits for a gap, it places
    /// nothing.
    pub(super) fn may_place(&self) -> bool {
        let number = self.log.number(self.log.end());
        let is_free = self.gaps.commit.is_none() && self.log.len() < self.config.slots_max;
        self.is_normal() && is_free && self.early.contains_key(&number)
    }

    /// Places what came in its turn.
    pub(super) fn place_early(&mut self, out: &mut Out<Self>) {
        while self.may_place()
            && let Some((_, entry)) = self.early.pop_first()
        {
            self.waits.has_placed |= entry.id.origin == self.config.seating.my_id();
            let slot = self.log.end();
            let is_again = self.fill(Some(entry), out);
            self.speak_of(slot, is_again, out);
        }
    }

    /// Fills the slot behind the log, durably. Says whether its entry has an earlier slot.
    pub(super) fn fill(&mut self, value: Value, out: &mut Out<Self>) -> bool {
        let (view, slot) = (self.view, self.log.end());
        let is_known = |id| self.done.contains(id) || self.log.slot_of(id).is_some();
        let is_again = value.as_ref().is_some_and(|entry| is_known(entry.id));
        out.persist(match value.clone() {
            Some(entry) if is_again => Record::Again { view, slot, entry },
            value => Record::Place { view, slot, value },
        });
        self.lead.noops.extend(value.is_none().then_some(slot));
        self.log.push(value);
        is_again
    }

    /// Replies to the entry of a slot: a follower at once, the leader when it has the results. An entry that has an
    /// earlier slot comes to nothing in this one.
    pub(super) fn speak_of(&mut self, slot: Slot, is_again: bool, out: &mut Out<Self>) {
        let Some(Some(entry)) = self.log.get(slot).filter(|_| !is_again) else {
            return;
        };
        match self.is_leader() {
            true => out.execute(slot, entry.clone()),
            false => self.reply(slot, entry.id, None, out),
        }
    }

    /// The host has executed an entry ahead of its decision.
    pub(super) fn on_applied(
        &mut self,
        slot: Slot,
        id: EntryId,
        results: Vec<Bytes>,
        out: &mut Out<Self>,
    ) {
        let held = self.log.get(slot).and_then(Option::as_ref);
        if self.is_leader() && held.is_some_and(|entry| entry.id == id) {
            self.reply(slot, id, Some(results), out);
        }
    }

    /// Tells a gateway what is in the log, once that is durable.
    fn reply(&mut self, slot: Slot, id: EntryId, results: Option<Vec<Bytes>>, out: &mut Out<Self>) {
        let view = self.view;
        let reply = Reply {
            view,
            slot,
            id,
            results,
        };
        if id.origin == self.config.seating.my_id() {
            self.disk.push(out.persisted(), Written::Reply(reply));
        } else if self.config.seating.member(id.origin).is_some() {
            out.send(Peers::One(id.origin), Message::Reply(reply));
        }
    }

    /// Delivers what is decided.
    pub(super) fn deliver_all(&mut self, out: &mut Out<Self>) {
        let through = match self.is_leader() {
            true => self.lead.synced,
            false => self.lead.synced.min(self.lead.matched),
        };
        while self.is_normal()
            && self.log.next < through
            && let Some(value) = self.log.pop()
        {
            self.deliver(Slot(self.log.next.0 - 1), value, out);
        }
    }

    fn deliver(&mut self, slot: Slot, value: Value, out: &mut Out<Self>) {
        let id = value.as_ref().map(|entry| entry.id);
        let entry = value.filter(|entry| !self.done.contains(entry.id));
        if entry.is_none() && id.is_some() {
            out.emit(Event::Branch("decided twice"));
        }
        if self.is_leader() {
            out.emit(Event::Decided {
                slot,
                fast: id.is_some(),
                noop: id.is_none(),
                // To the sequencer, to the replicas, to who counts.
                delays: 3,
            });
        }
        self.done.advance(slot, entry.as_ref());
        out.deliver(slot, entry);
        if let Some(id) = id {
            self.gateway.settle(id, self.now.mono_ns);
        }
        self.waits.moved();
        self.forget_old_noops();
    }

    /// The host caught up from a peer: what is before `next` is decided.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.log.next {
            return;
        }
        out.emit(Event::Branch("installed"));
        let was_leader = self.is_leader();
        self.log.skip_to(next);
        self.lead.matched = self.lead.matched.max(next);
        self.done = base;
        if self.has_session() {
            self.early = self.early.split_off(&self.log.number(self.log.end()));
        }
        self.gateway.settle_all(&self.done);
        self.waits.moved();
        if was_leader {
            // Only a later view can have decided what this leader has not.
            out.emit(Event::Branch("leader overtaken"));
            return self.change_leader(out);
        }
        self.go_on_with_change(out);
    }
}
