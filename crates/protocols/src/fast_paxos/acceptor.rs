//! The acceptor: votes in fast rounds, for leaders' own values, and promises.

use super::Replica;
use super::messages::{Accept, FastVote, Message, Promise, Record, Shown, Vote};
use super::mutants::Fault;
use super::state::{Role, Written};
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Entry, EntryId, Event, MemberIndex, MemberSet, Out, Slot};

/// No honest replica gets so far.
const ROUNDS_MAX: u64 = 1 << 48;

impl Replica {
    /// In an open fast round, gives every entry that was heard of and has no vote in this ballot the next free slot.
    pub(super) fn vote_for_all(&mut self, out: &mut Out<Self>) {
        if self.any.is_none() || self.is_silent {
            return;
        }
        let end = Slot(self.next.0 + self.config.window);
        while self.free < end {
            let mut heard = self.heard.iter();
            let unplaced = heard.find(|(_, heard)| !heard.is_placed(self.promised));
            let Some(entry) = unplaced.map(|(_, heard)| heard.entry.clone()) else {
                return;
            };
            let slot = self.free;
            self.cast(slot, Some(entry), false, out);
            if self.leader().is_some() {
                self.count(slot, out);
            } else {
                self.say_fast_vote(slot, out);
            }
        }
    }

    /// Votes for a value in a slot, in the promised ballot.
    pub(super) fn cast(
        &mut self,
        slot: Slot,
        value: Option<Entry>,
        is_classic: bool,
        out: &mut Out<Self>,
    ) {
        let ballot = self.promised;
        let vote = Vote {
            ballot,
            is_classic,
            value,
        };
        let before = self
            .votes
            .get(&slot)
            .filter(|before| before.ballot == ballot);
        let leads = self.leader().is_some();
        assert!(
            before.is_none() || !leads || self.fault(Fault::LeaderRevotes),
            "a leader votes once in a slot of its ballot, {slot:?} (F2)"
        );
        assert!(
            before.is_none_or(|before| before.rank() < vote.rank()) || leads,
            "votes in a slot ascend, {slot:?} (F4)"
        );
        out.persist(Record::Vote(Shown {
            slot,
            vote: vote.clone(),
        }));
        if let Some(entry) = vote.value.clone() {
            let id = entry.id;
            self.hear(entry, 0);
            if let Some(heard) = self.heard.get_mut(&id) {
                heard.place = Some((ballot, slot));
            }
        }
        self.votes.insert(slot, vote);
        self.free = self.free.max(slot.next());
        if leads {
            self.disk
                .push(out.persisted(), Written::Own { ballot, slot });
            let tally = self.tally_mut(slot).expect("a leader has one");
            (tally.is_fresh, tally.is_classic) = (true, is_classic);
        }
    }

    /// Tells the leader of a vote in its fast round, once that is durable.
    pub(super) fn say_fast_vote(&self, slot: Slot, out: &mut Out<Self>) {
        let Some((leader, entry)) = self.fast_vote(slot) else {
            return;
        };
        let ballot = self.promised;
        let vote = FastVote {
            ballot,
            slot,
            entry,
        };
        out.send(self.peer(leader), Message::FastVote(vote));
    }

    /// What this replica voted for in a slot of another's fast round that it has promised, and who leads that.
    fn fast_vote(&self, slot: Slot) -> Option<(MemberIndex, EntryId)> {
        let of = |vote: &&Vote| vote.ballot == self.promised && !vote.is_classic;
        let vote = self.votes.get(&slot).filter(of)?;
        let leader = self.config.seating.peer(self.promised.node)?;
        Some((leader, vote.name()?))
    }

    /// A leader's own value for a slot.
    pub(super) fn on_accept(&mut self, from: MemberIndex, accept: Accept, out: &mut Out<Self>) {
        let (ballot, slot, value) = (accept.ballot, accept.slot, accept.value);
        let is_fit = value.as_ref().is_none_or(|entry| self.is_fit(entry));
        if !self.is_ballot_of(from, ballot) || !is_fit {
            return self.misbehaved(from, "a value that it cannot ask for", out);
        }
        if self.is_silent {
            // It cannot vote, and may learn that the value is decided.
            value.into_iter().for_each(|entry| self.take_in(entry));
            return;
        }
        if ballot < self.promised {
            return self.say_nack(from, out);
        }
        self.follow(from, ballot, out);
        if slot < self.next {
            // Its leader was elsewhere when that was decided.
            return out.inform(self.config.seating.members[from], slot);
        }
        if slot >= self.horizon() {
            return out.emit(Event::Branch("too far ahead"));
        }
        if !self.accept(slot, value, out) {
            return self.misbehaved(from, "two values in a slot of one ballot", out);
        }
        out.send(self.peer(from), Message::Accepted(ballot, slot));
    }

    /// Accepts a leader's own value, unless that has happened. Says whether it is the same then.
    ///
    /// It replaces what got a vote in the fast round of the same ballot. That is sound, for a fast round chooses
    /// nothing but what its leader voted for, and the leader asks for nothing else.
    fn accept(&mut self, slot: Slot, value: Option<Entry>, out: &mut Out<Self>) -> bool {
        let name = value.as_ref().map(|entry| entry.id);
        let before = self.votes.get(&slot);
        let before = before.filter(|before| before.ballot == self.promised);
        if let Some(before) = before.filter(|before| before.is_classic) {
            return before.name() == name;
        }
        let displaced = before.and_then(Vote::name).filter(|id| Some(*id) != name);
        let was_last = self.free == slot.next();
        self.cast(slot, value, true, out);
        if displaced.is_some() {
            out.emit(Event::Branch("vote replaced"));
        }
        if was_last && !self.fault(Fault::NoRevote) {
            self.vote_again(displaced, name.is_none());
        }
        true
    }

    /// An entry lost its slot to the leader's own value, and may get another vote here. That is of use where the slot
    /// was the last one used here: this replica missed what came before, and the entry's slot at the leader is likely
    /// to be the next. Otherwise the order of later votes here is another one, too, and more votes would only spoil
    /// more slots; but for where the leader skipped them, so that the next is free at all members.
    fn vote_again(&mut self, displaced: Option<EntryId>, is_skipped: bool) {
        let ballot = self.promised;
        for (id, heard) in &mut self.heard {
            let Some((_, slot)) = heard.place.filter(|(of, _)| *of == ballot) else {
                continue;
            };
            let is_lost = self
                .votes
                .get(&slot)
                .is_none_or(|vote| vote.name() != Some(*id));
            if is_lost && (is_skipped || Some(*id) == displaced) {
                heard.place = None;
            }
        }
    }

    /// Whether a ballot is one of a member's.
    pub(super) fn is_ballot_of(&self, member: MemberIndex, ballot: Ballot) -> bool {
        let is_its = ballot.node == self.config.seating.members[member];
        is_its && (1..ROUNDS_MAX).contains(&ballot.round)
    }

    /// Somebody uses a ballot that is over, and may be idle: nothing else tells it. To refuse promises nothing.
    pub(super) fn say_nack(&self, to: MemberIndex, out: &mut Out<Self>) {
        let promised = self.promised;
        self.tell(MemberSet::only(to), &Message::Nack(promised), out);
    }

    /// Promises a ballot: nothing lower gets a vote from now on, and whoever led by it, leads no more.
    pub(super) fn raise(&mut self, ballot: Ballot, out: &mut Out<Self>) {
        if self.leader().is_some() {
            out.emit(Event::Branch("leader deposed"));
        }
        self.role = Role::Follower;
        self.promised = ballot;
        self.highest = self.highest.max(ballot);
        (self.any, self.free) = (None, self.next);
        self.trust.leader = None;
        out.persist(Record::Promise(ballot));
    }

    /// Somebody wants to lead.
    pub(super) fn on_prepare(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        first: Slot,
        out: &mut Out<Self>,
    ) {
        if !self.is_ballot_of(from, ballot) {
            return self.misbehaved(from, "a ballot of another", out);
        }
        if first < self.next {
            out.inform(self.config.seating.members[from], first);
        }
        if self.is_silent {
            return;
        }
        if ballot < self.promised {
            return self.say_nack(from, out);
        }
        if ballot > self.promised {
            self.raise(ballot, out);
        }
        // Give it time.
        (self.trust.is_heard, self.trust.is_barred) = (true, false);
        let shown = self.votes.range(first.max(self.next)..);
        let shown = shown.map(|(slot, vote)| Shown {
            slot: *slot,
            vote: vote.clone(),
        });
        let promise = Promise {
            ballot,
            delivered: self.next,
            shown: shown.collect(),
        };
        out.send(self.peer(from), Message::Promise(promise));
    }
}
