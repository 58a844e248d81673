//! The leader: counts votes of its fast round, asks for its own values where they are not equal, and tells all what
//! is decided. Nobody else counts.

use super::Replica;
use super::messages::{Accept, Commit, FastVote, Message, Timer, Vote};
use super::mutants::Fault;
use super::state::{Role, Tally};
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Due, Entry, EntryId, Event, MemberIndex, MemberSet, Out, Slot};

impl Replica {
    /// What this replica counts as leader in a slot; `None` if it does not lead.
    pub(super) fn tally_mut(&mut self, slot: Slot) -> Option<&mut Tally> {
        let is_kept = self.is_kept(slot);
        match &mut self.role {
            Role::Leader(leader) if is_kept => Some(leader.tallies.entry(slot).or_default()),
            _ => None,
        }
    }

    /// The vote of this replica, as leader, in a slot, and what it counted there.
    fn own_vote(&self, slot: Slot) -> Option<(&Vote, &Tally)> {
        let tally = self.leader()?.tallies.get(&slot)?;
        let vote = self.votes.get(&slot);
        Some((vote.filter(|vote| vote.ballot == self.promised)?, tally))
    }

    /// A vote in the fast round.
    pub(super) fn on_fast_vote(&mut self, from: MemberIndex, vote: FastVote, out: &mut Out<Self>) {
        let (slot, entry) = (vote.slot, vote.entry);
        if vote.ballot == self.promised
            && let Some(tally) = self.tally_mut(slot)
        {
            tally.votes.entry(from).or_insert(entry);
            if self.fault(Fault::LeaderRevotes) {
                self.change_vote(slot, entry, out);
            }
            self.count(slot, out);
        }
    }

    /// A member has accepted the leader's own value.
    pub(super) fn on_accepted(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        slot: Slot,
        out: &mut Out<Self>,
    ) {
        if ballot == self.promised
            && let Some(tally) = self.tally_mut(slot)
        {
            tally.accepted_by.insert(from);
            self.count(slot, out);
        }
    }

    /// Whether the votes that this leader has counted choose something in a slot, and whether the fast round did.
    ///
    /// Votes for something else than its own never do (F3): members may replace them by its own. What others chose
    /// in slots behind this one says nothing about it.
    pub(super) fn chosen(&self, slot: Slot) -> Option<(Option<EntryId>, bool)> {
        let (vote, tally) = self.own_vote(slot)?;
        let (name, enough) = (vote.name(), &self.config.thresholds);
        let own = usize::from(tally.is_durable);
        if tally.is_classic && tally.accepted_by.len() + own >= enough.classic {
            return Some((name, false));
        }
        let is_enough = |id: EntryId, own: usize| tally.votes_for(id) + own >= enough.fast;
        if self.fault(Fault::LeaderNotNeeded) {
            let mut all = tally.votes.values();
            let others = all.find(|id| self.heard.contains_key(id) && is_enough(**id, 0));
            if let Some(id) = others {
                return Some((Some(*id), true));
            }
        }
        let is_fast = tally.is_durable && name.is_some_and(|id| is_enough(id, own));
        is_fast.then_some((name, true))
    }

    /// Votes were counted in a slot: it may be decided, or never be by the fast round.
    pub(super) fn count(&mut self, slot: Slot, out: &mut Out<Self>) {
        if let Some((name, is_fast)) = self.chosen(slot) {
            out.emit(Event::Decided {
                slot,
                fast: is_fast,
                noop: name.is_none(),
                // Propose, FastVote; and Accept, Accepted.
                delays: if is_fast { 2 } else { 4 },
            });
            if is_fast && self.fault(Fault::CommitUpTo) {
                self.decide_before(slot);
            }
            self.learn(slot, name);
            self.deliver_all(out);
        } else if self.is_collision(slot) {
            out.emit(Event::Branch("collision"));
            self.ask_for_own(slot, out);
        }
    }

    /// Everything before a slot is decided as this leader voted (a mutant).
    fn decide_before(&mut self, slot: Slot) {
        let before = self.votes.range(self.next..slot);
        let before: Vec<_> = before.map(|(slot, vote)| (*slot, vote.name())).collect();
        before
            .into_iter()
            .for_each(|(slot, name)| self.learn(slot, name));
    }

    /// Whether too many members voted for something else than this leader for its fast round to choose anything.
    fn is_collision(&self, slot: Slot) -> bool {
        let Some((vote, tally)) = self.own_vote(slot).filter(|(_, tally)| !tally.is_classic) else {
            return false;
        };
        let equal = vote.name().map_or(0, |id| tally.votes_for(id));
        let members = self.config.seating.members.len();
        members - (tally.votes.len() - equal) < self.config.thresholds.fast
    }

    /// Asks all members for the own value of a slot, in the ballot of the fast round.
    fn ask_for_own(&mut self, slot: Slot, out: &mut Out<Self>) {
        if let Some(tally) = self.tally_mut(slot) {
            (tally.is_classic, tally.is_fresh) = (true, true);
            self.say_accept(slot, self.config.seating.others(), out);
        }
    }

    /// Asks members for the own value of a slot. That promises nothing: if this leader forgets it, it does not use
    /// its ballot again.
    pub(super) fn say_accept(&mut self, slot: Slot, to: MemberSet, out: &mut Out<Self>) {
        let ballot = self.promised;
        let Some((vote, _)) = self.own_vote(slot) else {
            return;
        };
        let value = vote.value.clone();
        let until_ns = value.as_ref().map_or(0, |entry| self.there_ns(entry, to));
        let accept = Accept {
            ballot,
            slot,
            value,
        };
        self.tell(to, &Message::Accept(accept), out);
        if let Some(tally) = self.tally_mut(slot) {
            tally.until_ns = tally.until_ns.max(until_ns);
        }
    }

    /// Changes the own vote of a slot to another's, and asks for that (a mutant).
    fn change_vote(&mut self, slot: Slot, to: EntryId, out: &mut Out<Self>) {
        let asked = self.own_vote(slot).filter(|(_, tally)| tally.is_classic);
        let is_other = asked.is_some_and(|(vote, _)| vote.name() != Some(to));
        let entry = self.heard.get(&to).map(|heard| heard.entry.clone());
        if is_other && entry.is_some() {
            self.cast(slot, entry, true, out);
            self.ask_for_own(slot, out);
        }
    }

    /// Proposes a value by itself, without a fast round.
    pub(super) fn propose_own(&mut self, slot: Slot, value: Option<Entry>, out: &mut Out<Self>) {
        self.cast(slot, value, true, out);
        self.ask_for_own(slot, out);
    }

    /// Members that missed something, or heard it in another order, may be ahead: they voted behind all slots used
    /// here, for what has a slot here. They would never vote for anything in the slot that it gets here. So that
    /// slots of one entry meet again, the slots up to theirs hold nothing.
    pub(super) fn realign(&mut self, out: &mut Out<Self>) {
        let Some(leader) = self.leader() else {
            return;
        };
        let is_placed = |id: &EntryId| {
            let heard = self.heard.get(id);
            heard.is_some_and(|heard| heard.is_placed(self.promised))
        };
        let is_known = |id: &EntryId| is_placed(id) || self.done.entries.contains(*id);
        let mut ahead = leader.tallies.range(self.free..).rev();
        let last = ahead.find(|(_, tally)| tally.votes.values().any(is_known));
        let Some((last, _)) = last else {
            return;
        };
        out.emit(Event::Branch("slots skipped"));
        for slot in (self.free.0..=last.0).map(Slot) {
            self.propose_own(slot, None, out);
        }
    }

    /// Gives fast rounds one to two times `collide_ns`, and asks for the own value where that was not enough, but for
    /// long entries that are on their way to all.
    pub(super) fn on_collide(&mut self, out: &mut Out<Self>) {
        self.armed.collide = false;
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let (votes, heard, now_ns) = (&self.votes, &self.heard, self.now_ns);
        let is_under_way = |slot: &Slot| {
            let name = votes.get(slot).and_then(Vote::name);
            let entry = name.and_then(|id| heard.get(&id));
            entry.is_some_and(|entry| entry.until_ns > now_ns)
        };
        let mut late = Vec::new();
        for (slot, tally) in leader.tallies.range_mut(..self.free) {
            // The timer of what is asked for is another one.
            let is_late = !tally.is_classic && !std::mem::take(&mut tally.is_fresh);
            if is_late && !is_under_way(slot) {
                late.push(*slot);
            }
        }
        for slot in late {
            out.emit(Event::Branch("votes late"));
            self.ask_for_own(slot, out);
        }
    }

    /// Has the collision timer run while a fast round is under way.
    pub(super) fn watch_fast_rounds(&mut self, out: &mut Out<Self>) {
        let free = self.free;
        let is_fast = |leader: &super::state::Leader| {
            let mut used = leader.tallies.range(..free);
            used.any(|(_, tally)| !tally.is_classic)
        };
        if !self.armed.collide && self.leader().is_some_and(is_fast) {
            self.armed.collide = true;
            out.arm(Timer::Collide, Due::After(self.config.collide_ns));
        }
    }

    /// Asks again for own values that were not asked for since the last timer, of members that have not accepted.
    pub(super) fn repeat_accepts(&mut self, to: MemberSet, is_link_up: bool, out: &mut Out<Self>) {
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let (mut stale, now_ns) = (Vec::new(), self.now_ns);
        for (slot, tally) in &mut leader.tallies {
            let lacking = to - tally.accepted_by;
            if !tally.is_classic || lacking.is_empty() {
                continue;
            }
            let is_due = !std::mem::take(&mut tally.is_fresh) && tally.until_ns <= now_ns;
            if is_due || is_link_up {
                stale.push((*slot, lacking));
            }
        }
        for (slot, lacking) in stale {
            self.say_accept(slot, lacking, out);
        }
    }

    /// Tells all what was decided since they were told.
    pub(super) fn announce(&mut self, out: &mut Out<Self>) {
        let (next, others) = (self.next, self.config.seating.others());
        if let Role::Leader(leader) = &mut self.role
            && leader.announced < next
        {
            let from = std::mem::replace(&mut leader.announced, next);
            self.say_commit(others, from, out);
        }
    }

    /// Tells members that the fast round is open, and what is decided from a slot on, as far as that is remembered.
    pub(super) fn say_commit(&self, to: MemberSet, from: Slot, out: &mut Out<Self>) {
        let first = from.max(self.remembered_from());
        let skipped = first.0.saturating_sub(self.remembered_from().0) as usize;
        if let Some(any) = self.any {
            let commit = Commit {
                ballot: self.promised,
                any,
                first,
                names: self.recent.iter().skip(skipped).copied().collect(),
            };
            self.tell(to, &Message::Commit(commit), out);
        }
    }
}
