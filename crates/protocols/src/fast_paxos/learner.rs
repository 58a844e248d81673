//! The learner: what is decided, and its delivery in slot order.

use super::Replica;
use super::messages::Commit;
use super::state::Role;
use crate::shared::decided::DecidedSet;
use crate::shared::peers::Member;
use quorate_core::{Base, EntryId, Event, MemberIndex, Out, Slot};

impl Replica {
    /// A leader's fast round is open, and slots are decided. What is decided is so whatever the ballot.
    pub(super) fn on_commit(&mut self, from: MemberIndex, commit: Commit, out: &mut Out<Self>) {
        let (ballot, first, names) = (commit.ballot, commit.first, commit.names);
        if !self.is_ballot_of(from, ballot) {
            return self.misbehaved(from, "another's fast round", out);
        }
        let end = Slot(first.0.saturating_add(names.len() as u64));
        self.fetcher.note(from, end);
        for (slot, name) in (first.0..end.0).map(Slot).zip(names) {
            self.learn(slot, name);
        }
        if self.is_silent {
            self.trust.leader = Some(from);
        } else if ballot < self.promised {
            self.say_nack(from, out);
        } else {
            self.follow(from, ballot, out);
            self.open(commit.any);
        }
        self.deliver_all(out);
    }

    /// The fast round of the promised ballot is open from a slot on. What this replica voted for there in lower
    /// ballots is not chosen: no promise showed it.
    pub(super) fn open(&mut self, any: Slot) {
        if self.any.is_none() {
            self.any = Some(any);
            self.free = self.free.max(any);
        }
    }

    /// A slot is decided.
    pub(super) fn learn(&mut self, slot: Slot, name: Option<EntryId>) {
        if self.is_kept(slot) {
            self.decided.entry(slot).or_insert(name);
        }
    }

    /// Delivers what is decided without gaps, as far as the entries are here.
    pub(super) fn deliver_all(&mut self, out: &mut Out<Self>) {
        while let Some(name) = self.decided.get(&self.next).copied() {
            // An entry takes effect in the first of its slots, everywhere alike (F5).
            let is_second = name.is_some_and(|id| self.done.entries.contains(id));
            if is_second {
                out.emit(Event::Branch("decided twice"));
            }
            let named = name.filter(|_| !is_second);
            let entry = named.and_then(|id| self.heard.remove(&id));
            if named.is_some() && entry.is_none() {
                // Another member has it.
                return;
            }
            let (slot, entry) = (self.next, entry.map(|heard| heard.entry));
            self.done.advance(slot, entry.as_ref());
            out.deliver(slot, entry);
            if let Some(id) = named {
                let is_led_here = self.leader().is_some();
                self.clients.note_delivered(id, is_led_here, self.now_ns);
            }
            if self.recent.len() as u64 >= self.config.slots_max {
                self.recent.pop_front();
            }
            self.recent.push_back(name);
            self.move_to(slot.next());
        }
    }

    /// All before a slot is delivered.
    fn move_to(&mut self, next: Slot) {
        self.next = next;
        self.free = self.free.max(next);
        self.votes = self.votes.split_off(&next);
        self.decided = self.decided.split_off(&next);
        if let Role::Leader(leader) = &mut self.role {
            leader.tallies = leader.tallies.split_off(&next);
        }
        self.backoff.moved();
        self.trust.has_moved = true;
    }

    /// The first slot of which it is remembered what was decided there.
    pub(super) fn remembered_from(&self) -> Slot {
        Slot(self.next.0 - self.recent.len() as u64)
    }

    /// The host caught up from a peer.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next > self.next {
            out.emit(Event::Branch("installed"));
            self.done = base;
            let done = &self.done.entries;
            self.heard.retain(|id, _| !done.contains(*id));
            self.clients.drop_done(&self.done);
            self.recent.clear();
            self.move_to(next);
            self.lead_if_elected(out);
            self.deliver_all(out);
        }
    }
}
