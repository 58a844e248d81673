//! The acceptor: phase 1(b) and phase 2(b).

use super::Replica;
use super::ballot::Ballot;
use super::messages::{Claim, Message, Promise, Record, SlotVote};
use super::role::{Proposal, Trust};
use quorate_core::{ENTRY_BYTES_MAX, Entry, Out, Slot};

impl Replica {
    /// Phase 1(a) of a candidate, for every slot from `first` on.
    pub(super) fn on_prepare(
        &mut self,
        from: usize,
        ballot: Ballot,
        first: Slot,
        out: &mut Out<Self>,
    ) {
        if ballot.node != self.config.members[from] {
            return self.misbehaved(from, "another's ballot", out);
        }
        if !self.is_voting() {
            return;
        }
        if ballot < self.promised {
            return self.refuse(from, ballot, out);
        }
        if ballot > self.promised {
            self.step_down();
            self.promised = ballot;
            out.persist(Record::Promise { ballot });
            // Somebody is becoming the leader: give it time.
            self.trust = Trust::Fresh;
            self.postpone_election(out);
        }
        self.say_promise(from, first, out);
    }

    /// A ballot is over: a higher one was promised.
    pub(super) fn refuse(&self, to: usize, ballot: Ballot, out: &mut Out<Self>) {
        let promised = self.promised;
        out.send(self.peer(to), Message::Nack { ballot, promised });
    }

    /// Phase 1(b): all that was accepted, in parts of a bounded size. What was decided before the
    /// first of them the candidate gets from the log.
    fn say_promise(&self, to: usize, first: Slot, out: &mut Out<Self>) {
        if first < self.ap {
            out.inform(self.config.members[to], first);
        }
        let mut from = first.max(self.ap);
        let (mut votes, mut bytes) = (Vec::new(), 0);
        let known = self
            .slots
            .iter()
            .enumerate()
            .skip((from.0 - self.ap.0) as usize);
        for (offset, instance) in known {
            let Some(Proposal { ballot, value }) = instance.accepted.clone() else {
                continue;
            };
            let slot = self.slot_at(offset);
            if bytes >= self.config.promise_bytes_max {
                self.say_part(to, from, Some(slot), std::mem::take(&mut votes), out);
                (from, bytes) = (slot, 0);
            }
            bytes += value.as_ref().map_or(0, Entry::body_len) + VOTE_BYTES;
            votes.push(SlotVote {
                slot,
                ballot,
                value,
            });
        }
        self.say_part(to, from, None, votes, out);
    }

    fn say_part(
        &self,
        to: usize,
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
            lives: self.lives.clone(),
        };
        out.send(self.peer(to), Message::Promise(part));
    }

    /// Phase 2(a) of a leader.
    pub(super) fn on_accept(
        &mut self,
        from: usize,
        ballot: Ballot,
        (slot, value): (Slot, Option<Entry>),
        claim: Claim,
        out: &mut Out<Self>,
    ) {
        if ballot.node != self.config.members[from] {
            return self.misbehaved(from, "another's ballot", out);
        }
        if value
            .as_ref()
            .is_some_and(|entry| entry.body_len() > ENTRY_BYTES_MAX)
        {
            return self.misbehaved(from, "an entry too large", out);
        }
        if ballot < self.promised {
            return self.refuse(from, ballot, out);
        }
        self.follow(from, ballot, out);
        match slot.0.checked_sub(self.ap.0) {
            // Decided here: the leader has not heard that, or has by now.
            None => out.inform(self.config.members[from], slot),
            Some(offset) if offset < self.config.slots_max as u64 => {
                self.accept(from, offset as usize, Proposal { ballot, value }, out);
            }
            Some(_) => {}
        }
        self.learn(ballot, claim);
        self.deliver(out);
    }

    /// Phase 2(b).
    fn accept(&mut self, from: usize, offset: usize, proposal: Proposal, out: &mut Out<Self>) {
        let (slot, ballot) = (self.slot_at(offset), proposal.ballot);
        let before = self.instance_grown(offset).accepted.as_ref();
        match before.filter(|before| before.ballot == ballot) {
            Some(before) if before.name() != proposal.name() => {
                return self.misbehaved(from, "two values in one ballot", out);
            }
            Some(_) => {}
            None => self.store(offset, proposal, out),
        }
        if self.is_voting() {
            let lives = self.lives.clone();
            let message = Message::Accepted {
                ballot,
                slot,
                lives,
            };
            out.send(self.peer(from), message);
        }
    }

    /// Takes up a value, and writes it down; its bytes only once.
    pub(super) fn store(&mut self, offset: usize, proposal: Proposal, out: &mut Out<Self>) {
        let (slot, ballot) = (self.slot_at(offset), proposal.ballot);
        let is_voting = self.is_voting();
        let instance = self.instance_grown(offset);
        let record = match &mut instance.accepted {
            Some(before) if before.name() == proposal.name() => {
                before.ballot = ballot;
                Record::Again { slot, ballot }
            }
            accepted => {
                let value = proposal.value.clone();
                *accepted = Some(proposal);
                Record::Accept {
                    slot,
                    ballot,
                    value,
                }
            }
        };
        instance.acks = 0;
        if is_voting {
            out.persist(record);
        }
    }
}

/// About what a vote takes beside its value.
const VOTE_BYTES: usize = 32;
