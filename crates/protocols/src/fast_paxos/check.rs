//! What one replica can see of the invariants.

use super::Replica;
use super::mutants::Fault;
use super::state::{Leader, Role};
use crate::shared::ballot::Ballot;
use quorate_core::Slot;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        for (slot, vote) in &self.votes {
            assert!(self.is_kept(*slot), "nothing is kept of {slot:?}");
            assert!(
                vote.ballot <= self.promised,
                "no vote is in a ballot that was not promised, {slot:?} (F4)"
            );
            let is_behind = vote.ballot < self.promised || *slot < self.free;
            assert!(is_behind, "{slot:?} has a vote, and is not free (F4)");
        }
        if let Some(name) = self.decided.get(&self.next) {
            let is_here = name
                .is_none_or(|id| self.heard.contains_key(&id) || self.done.entries.contains(id));
            assert!(!is_here, "what is decided without gaps is delivered");
        }
        let is_done = |id| self.done.entries.contains(id);
        assert!(
            !self.heard.keys().any(|id| is_done(*id)),
            "what is delivered is not waited for (F5)"
        );
        assert!(
            !self.clients.offers.entries().any(|entry| is_done(entry.id)),
            "an own entry under way is not delivered (F5)"
        );
        assert!(
            self.promised <= self.highest,
            "what is promised was heard of"
        );
        assert!(self.next <= self.free, "what is delivered is not free");
        self.disk.check();
        let may_form = self.clients.may_form_entry(&self.config.batches);
        assert!(!may_form, "what may be sent does not wait");
        self.check_role();
    }

    fn check_role(&self) {
        self.check_silence();
        let is_own = self.promised.node == self.config.seating.my_id();
        match &self.role {
            Role::Follower => {}
            Role::Candidate(_) => assert!(
                is_own && self.any.is_none(),
                "a candidate has promised its own ballot, and opened no round of it"
            ),
            Role::Leader(leader) => {
                assert!(is_own, "a leader has promised its own ballot");
                self.check_leader(leader);
            }
        }
    }

    fn check_silence(&self) {
        if self.is_silent {
            let is_bound = self.promised != Ballot::default() || !self.votes.is_empty();
            let is_follower = matches!(self.role, Role::Follower);
            assert!(!is_bound && is_follower, "who lost its promises makes none");
        }
    }

    fn check_leader(&self, leader: &Leader) {
        let any = self.any.expect("a leader has opened its fast round");
        for slot in (self.next.0..self.free.0).map(Slot) {
            let vote = self.votes.get(&slot);
            let is_own = vote.is_some_and(|vote| vote.ballot == self.promised);
            assert!(is_own, "a leader leaves no slot out, {slot:?} (F3)");
            let tally = &leader.tallies[&slot];
            let is_sure = slot >= any || tally.is_classic;
            assert!(is_sure, "what it found has no fast round, {slot:?} (F1)");
            assert!(
                self.chosen(slot).is_none() || self.decided.contains_key(&slot),
                "what is chosen is decided, {slot:?} (F1)"
            );
        }
        for (slot, tally) in leader.tallies.range(self.free..) {
            let is_unused = !tally.is_durable && !tally.is_classic && tally.accepted_by.is_empty();
            assert!(
                is_unused || self.fault(Fault::LeaderRevotes),
                "nothing is counted where a leader has no vote, {slot:?} (F3)"
            );
        }
        assert!(leader.announced == self.next, "what is decided is told");
    }
}
