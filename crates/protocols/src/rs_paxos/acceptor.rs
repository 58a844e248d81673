//! The acceptor: phase 1(b) and phase 2(b).

use super::Replica;
use super::fragments::Fragments;
use super::messages::{Accept, Message, Promise, Record, SlotVote};
use super::mutants::Fault;
use super::role::Proposal;
use crate::shared::ballot::Ballot;
use crate::shared::leadership::Trust;
use crate::shared::led::Led;
use crate::shared::rejoins::Rejoins;
use quorate_core::{ENTRY_BYTES_MAX, Entry, Event, MemberIndex, Out, Slot};

impl Replica {
    /// Phase 1(a) of a candidate, for every slot from `first` on.
    pub(super) fn on_prepare(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        first: Slot,
        out: &mut Out<Self>,
    ) {
        if ballot.node != self.config.seating.members[from] {
            return self.misbehaved(from, "another's ballot", out);
        }
        if !self.is_voting() {
            return;
        }
        if ballot < self.promised {
            return self.refuse(from, ballot, out);
        }
        if self.is_barred(from) {
            return out.emit(Event::Branch("lease kept"));
        }
        if ballot > self.promised {
            self.step_down();
            self.promised = ballot;
            out.persist(Record::Promise { ballot });
            // Somebody is becoming the leader: give it time.
            self.leadership.trust = Trust::Fresh;
            self.postpone_election(out);
        }
        self.say_promise(from, first, out);
    }

    /// A ballot is over: a higher one was promised.
    pub(super) fn refuse(&self, to: MemberIndex, ballot: Ballot, out: &mut Out<Self>) {
        let promised = self.promised;
        out.send(self.peer(to), Message::Nack { ballot, promised });
    }

    /// Phase 1(b): all that was accepted, in parts of a bounded size. What was decided before the
    /// first of them the candidate gets from the log.
    fn say_promise(&self, to: MemberIndex, first: Slot, out: &mut Out<Self>) {
        if first < self.ap {
            out.inform(self.config.seating.members[to], first);
        }
        let mut from = first.max(self.ap);
        let (mut votes, mut bytes) = (Vec::new(), 0);
        let known = self
            .slots
            .iter()
            .enumerate()
            .skip((from.0 - self.ap.0) as usize);
        for (offset, instance) in known {
            let Some(accepted) = instance.accepted.clone() else {
                continue;
            };
            let slot = self.slot_at(offset);
            if bytes >= self.config.promise_bytes_max {
                self.say_part(to, from, Some(slot), std::mem::take(&mut votes), out);
                (from, bytes) = (slot, 0);
            }
            bytes += accepted.value.as_ref().map_or(0, Entry::body_len) + VOTE_BYTES;
            votes.push(SlotVote {
                slot,
                ballot: accepted.ballot,
                value: accepted.value.map(|entry| entry.with_share(None)),
                fragments: accepted.fragments,
            });
        }
        self.say_part(to, from, None, votes, out);
    }

    fn say_part(
        &self,
        to: MemberIndex,
        from: Slot,
        until: Option<Slot>,
        votes: Vec<SlotVote>,
        out: &mut Out<Self>,
    ) {
        let part = Promise {
            ballot: self.promised,
            next: self.ap,
            from,
            until,
            votes,
            lives: self.voter.lives().clone(),
        };
        out.send(self.peer(to), Message::Promise(part));
    }

    /// Phase 2(a) of a leader.
    pub(super) fn on_accept(&mut self, from: MemberIndex, accept: Accept, out: &mut Out<Self>) {
        let Accept {
            ballot,
            slot,
            claim,
            ..
        } = accept;
        if ballot.node != self.config.seating.members[from] {
            return self.misbehaved(from, "another's ballot", out);
        }
        if accept
            .value
            .as_ref()
            .is_some_and(|entry| entry.body_len() > ENTRY_BYTES_MAX)
        {
            return self.misbehaved(from, "an entry too large", out);
        }
        if accept.code > self.config.code_max {
            return self.misbehaved(from, "a code too large", out);
        }
        if ballot < self.promised {
            return self.refuse(from, ballot, out);
        }
        self.follow(from, ballot, out);
        match slot.0.checked_sub(self.ap.0) {
            // Decided here: the leader has not heard that, or has by now.
            None => out.inform(self.config.seating.members[from], slot),
            Some(offset) if offset < self.config.slots_max as u64 => {
                self.accept(from, offset as usize, accept, out);
            }
            Some(_) => {}
        }
        self.learn(ballot, claim);
        self.deliver(out);
    }

    /// Phase 2(b), if the own fragment is here.
    fn accept(
        &mut self,
        from: MemberIndex,
        offset: usize,
        mut accept: Accept,
        out: &mut Out<Self>,
    ) {
        self.attach_parked(&mut accept);
        let (slot, ballot, code) = (accept.slot, accept.ballot, accept.code);
        let name = accept.value.as_ref().map(|entry| entry.id);
        let before = self.slots.get(offset);
        let before = before.and_then(|instance| instance.accepted.as_ref());
        let is_known = before.is_some_and(|before| before.ballot == ballot);
        let held = before.filter(|before| before.name() == name);
        let held = held.map_or(Fragments::default(), |before| before.fragments);
        if is_known && held.is_empty() {
            return self.misbehaved(from, "two values in one ballot", out);
        }
        if !accept.is_here() && !held.has(code) {
            return self.say_lacks(from, &accept, out);
        }
        if !is_known || !held.has(code) {
            self.store(offset, ballot, accept.value, code, out);
        }
        if let Some(id) = name {
            self.parked.forget(id);
        }
        if self.is_voting() {
            let lives = self.voter.lives().clone();
            let message = Message::Accepted {
                ballot,
                slot,
                code,
                lives,
            };
            out.send(self.peer(from), message);
        }
    }

    /// The leader takes this replica to hold a fragment that it does not.
    fn say_lacks(&self, to: MemberIndex, accept: &Accept, out: &mut Out<Self>) {
        if self.is_voting() {
            let (ballot, slot, code) = (accept.ballot, accept.slot, accept.code);
            out.emit(Event::Branch("fragment missing"));
            out.send_early(self.peer(to), Message::Lacks { ballot, slot, code });
        }
    }

    /// Takes up a value under a code, and writes it down with the own fragment; each only once.
    ///
    /// The retention rule: fragments of the same value stay, whatever codes they are of; those of
    /// another value go, for the higher ballot proves that it was not chosen.
    pub(super) fn store(
        &mut self,
        offset: usize,
        ballot: Ballot,
        value: Option<Entry>,
        code: u8,
        out: &mut Out<Self>,
    ) {
        let (slot, is_voting) = (self.slot_at(offset), self.is_voting());
        // Who leads sends fragments of it; what is not written here is kept here.
        let is_kept = self.is_leader() || !is_voting;
        let drops_fragments = self.config.faults.is(Fault::DropFragments);
        let instance = self.instance_grown(offset);
        let name = value.as_ref().map(|entry| entry.id);
        let before = instance.accepted.take();
        if before.as_ref().is_none_or(|before| before.ballot != ballot) {
            instance.tallies.clear();
        }
        let before = before.filter(|before| before.name() == name);
        let mut fragments = before
            .as_ref()
            .map_or(Fragments::default(), |b| b.fragments);
        let record = if fragments.has(code) {
            Record::Again { slot, ballot }
        } else {
            if drops_fragments {
                fragments = Fragments::default();
            }
            fragments.add(code);
            Record::Accept {
                slot,
                ballot,
                value: value.clone(),
                code,
                is_held: true,
            }
        };
        let whole = before.filter(Proposal::is_whole);
        let value = match whole {
            Some(whole) => whole.value,
            None if is_kept => value,
            None => value.map(|entry| entry.with_share(None)),
        };
        let is_order = value.as_ref().is_some_and(Entry::is_order);
        instance.accepted = Some(Proposal {
            ballot,
            value,
            fragments,
        });
        if is_order {
            self.orders_end = self.orders_end.max(slot.next());
        }
        if is_voting {
            out.persist(record);
        }
    }
}

/// About what a vote takes beside its value.
const VOTE_BYTES: usize = 32;
