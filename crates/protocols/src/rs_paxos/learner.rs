//! The learner: what is chosen, and its delivery in slot order.
//!
//! A leader tells up to which slot everything is decided. That alone says nothing about a value
//! accepted in another ballot: the slot may have been decided for another one. So an accept counts
//! as chosen only if it is of the very ballot whose leader claims the slot, and that leader claims
//! only slots whose choice it has counted; or if the chosen value was named. Everything else is
//! fetched from the decided log, which is the host's.

use super::Replica;
use super::messages::Claim;
use super::mutants::Fault;
use super::role::{Instance, Role};
use crate::shared::ballot::Ballot;
use crate::shared::decided::DecidedSet;
use crate::shared::led::Led;
use crate::shared::timers::Timer;
use quorate_core::{Base, Due, EntryId, Event, MemberIndex, Out, Slot};

/// What a leader says to be chosen, with the ballot in which it says so.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct LeaderClaim {
    pub(super) ballot: Ballot,
    pub(super) claim: Claim,
}

impl Replica {
    /// A leader's commit notice, maybe passed on by another.
    pub(super) fn on_commit(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        claim: Claim,
        earlier: &[Option<EntryId>],
        out: &mut Out<Self>,
    ) {
        if ballot.node == self.config.seating.members[from] {
            if ballot < self.promised {
                // It leads no more, and may be idle: nothing else tells it.
                self.refuse(from, ballot, out);
            }
            self.follow(from, ballot, out);
            self.learn_names(claim.since, earlier, out);
        } else if ballot >= self.promised && self.leadership.leader.is_none() {
            self.hear_of(from, ballot, out);
        }
        self.learn(ballot, claim);
        self.deliver(out);
    }

    /// A peer follows somebody that is not heard here: what is given to it gets there.
    fn hear_of(&mut self, from: MemberIndex, ballot: Ballot, out: &mut Out<Self>) {
        let is_free = matches!(self.role, Role::Follower | Role::Canvassing { .. });
        if is_free && ballot.node != self.config.seating.my_id() {
            self.leadership.hear_of(from, ballot);
            self.forward_all(out);
        }
    }

    /// Slots decided in ballots before that of their teller, by the names of their values.
    fn learn_names(&mut self, end: Slot, names: &[Option<EntryId>], out: &mut Out<Self>) {
        let first = end.0.saturating_sub(names.len() as u64);
        for (slot, name) in (first..end.0).map(Slot).zip(names) {
            let instance = self
                .instance_mut(slot)
                .filter(|instance| !instance.is_chosen);
            if let Some(instance) = instance
                && instance
                    .accepted
                    .as_ref()
                    .is_some_and(|proposal| proposal.name() == *name)
            {
                instance.is_chosen = true;
                out.emit(Event::Branch("chosen by name"));
            }
        }
    }

    /// Slots decided in the ballot of their teller. What it said later includes what it said
    /// before, or can be fetched.
    pub(super) fn learn(&mut self, ballot: Ballot, claim: Claim) {
        let known = self.claim;
        if ballot > known.ballot || ballot == known.ballot && claim.upto > known.claim.upto {
            self.claim = LeaderClaim { ballot, claim };
        }
    }

    pub(super) fn is_chosen(&self, slot: Slot, instance: &Instance) -> bool {
        let LeaderClaim { ballot, claim } = self.claim;
        let is_claimed = claim.since <= slot && slot < claim.upto;
        let is_over_ballots = self.config.faults.is(Fault::ClaimOverBallots);
        let is_of_ballot = |accepted: Ballot| accepted == ballot || is_over_ballots;
        let accepted = instance.accepted.as_ref();
        instance.is_chosen
            || is_claimed && accepted.is_some_and(|proposal| is_of_ballot(proposal.ballot))
    }

    /// Delivers every slot whose turn it is. What is decided and not known here may come in a
    /// moment; if it does not, it is fetched.
    pub(super) fn deliver(&mut self, out: &mut Out<Self>) {
        while let Some(first) = self.slots.front()
            && self.is_chosen(self.ap, first)
        {
            let proposal = self
                .slots
                .pop_front()
                .and_then(|instance| instance.accepted);
            let proposal = proposal.expect("what is chosen here was accepted here");
            let name = proposal.name();
            let is_second = name.is_some_and(|id| self.done.entries.contains(id));
            if is_second {
                out.emit(Event::Branch("double decision skipped"));
            }
            let entry = proposal.value.filter(|_| !is_second);
            self.done.advance(self.ap, entry.as_ref());
            out.deliver(self.ap, entry);
            self.ap = self.ap.next();
            self.remember(name);
            self.settle_offer(name);
            if let Some(id) = name {
                self.parked.forget(id);
            }
            self.backoff.moved();
            self.patience.note_served();
        }
        if let Role::Leader(leader) = &mut self.role {
            // What a former leader told of meanwhile is not proposed again, and not claimed.
            let gathering = leader.gathering.split_off(&self.ap);
            let told = std::mem::replace(&mut leader.gathering, gathering);
            if let Some((last, _)) = told.last_key_value() {
                leader.since = leader.since.max(last.next());
            }
        }
        if self.ap < self.claim.claim.upto && !self.armed.catch_up && !self.is_leader() {
            self.armed.catch_up = true;
            out.arm(Timer::CatchUp, Due::After(self.config.delays.learn_ns));
        }
    }

    /// Keeps the name of what was chosen in the slot just delivered, for followers of the next
    /// leader.
    fn remember(&mut self, name: Option<EntryId>) {
        if self.recent.len() == self.config.window {
            self.recent.pop_front();
        }
        self.recent.push_back(name);
    }

    /// The names of the values chosen in the slots from `from` to before `end`, or in the last of
    /// them that are remembered.
    pub(super) fn names(&self, from: Slot, end: Slot) -> Vec<Option<EntryId>> {
        let first = self.ap.0 - self.recent.len() as u64;
        let wanted = from.0.max(first)..end.0.max(first);
        let names = self.recent.iter().copied();
        let skipped = wanted.start.min(wanted.end) - first;
        let count = wanted.end.saturating_sub(wanted.start);
        names.skip(skipped as usize).take(count as usize).collect()
    }

    /// The host caught up from a peer. A leader has not counted these choices, and does not claim
    /// them: they may be another's.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.ap {
            return;
        }
        let gone = (next.0 - self.ap.0).min(self.slots.len() as u64);
        self.slots.drain(..gone as usize);
        self.ap = next;
        self.done = base;
        self.recent.clear();
        self.drop_done_offers();
        let done = &self.done;
        self.backoff.moved();
        self.patience.note_served();
        if let Role::Leader(leader) = &mut self.role {
            out.emit(Event::Branch("leader overtaken"));
            leader.since = next;
            leader.next = leader.next.max(next);
            leader
                .pending
                .retain(|pending| !done.entries.contains(pending.entry.id));
            leader
                .spreading
                .retain(|spreading| !done.entries.contains(spreading.entry.id));
            leader.gathering = leader.gathering.split_off(&next);
        }
        self.lead_if_elected(out);
        self.deliver(out);
    }
}
