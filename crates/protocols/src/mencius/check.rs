//! What one replica can see of the invariants.

use super::Replica;
use super::mutants::Fault;
use super::state::{Held, OWNERS};
use quorate_core::{MemberIndex, Slot};

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        let kept = self.next..self.horizon();
        for (slot, held) in &self.slots {
            assert!(kept.contains(slot), "nothing is kept of {slot:?} (M6)");
            self.check_held(*slot, held);
        }
        let first = self.slots.get(&self.next);
        assert!(
            first.is_none_or(|held| held.decided.is_none()),
            "what is decided without gaps is delivered (M6)"
        );
        self.check_proposals();
        self.check_own();
        for offer in &self.offers {
            assert!(
                !self.done.entries.contains(offer.entry.id),
                "an own entry under way is not delivered (M7)"
            );
        }
        assert!(self.next <= self.seen, "what is delivered was seen");
        self.disk.check();
        if self.is_silent {
            let has_spoken = self.lanes.iter().any(|lane| lane.promised != OWNERS);
            assert!(
                !has_spoken && self.proposals.is_empty(),
                "who lost its promises makes none"
            );
        }
    }

    fn check_held(&self, slot: Slot, held: &Held) {
        let lane = self.lanes().owner(slot);
        if let Some((ballot, value)) = &held.accepted {
            let bound = self.lanes[lane].promised;
            assert!(
                *ballot <= bound || self.fault(Fault::PromiseOneSlot),
                "a promise covers all slots of a lane, {slot:?} (M5)"
            );
            assert!(
                *ballot != OWNERS || value.is_some(),
                "ballot 0 has its owner's entries alone, {slot:?} (M1)"
            );
        }
        let decided = held.decided.iter().flatten();
        let accepted = held.accepted.iter().filter_map(|(_, value)| value.as_ref());
        for entry in decided.chain(accepted) {
            let owner = self.config.seating.members[lane];
            assert!(
                entry.id.origin == owner || self.fault(Fault::TakerProposes),
                "an entry is its slot's owner's, {slot:?} (M2)"
            );
        }
    }

    fn check_proposals(&self) {
        for (slot, proposal) in &self.proposals {
            let held = self.slots.get(slot);
            assert!(
                held.is_some_and(|held| held.decided.is_none()),
                "what is decided is not proposed, {slot:?} (M3)"
            );
            let lane = self.lanes().owner(*slot);
            let is_owners = proposal.ballot == OWNERS;
            assert!(
                !is_owners || lane == self.config.seating.me && proposal.value.is_some(),
                "ballot 0 is the owner's, {slot:?} (M1)"
            );
            assert!(
                proposal.ballot <= self.lanes[lane].promised,
                "a ballot is promised before it is used, {slot:?} (M5)"
            );
        }
        for position in 0..self.lanes.len() {
            let lane = &self.lanes[MemberIndex::new(position)];
            assert!(
                lane.promised <= lane.highest || lane.one_slot.is_some(),
                "{lane:?} (M5)"
            );
            let own = lane.lead_ballot();
            assert!(
                own.is_none_or(|own| own == lane.highest) || lane.one_slot.is_some(),
                "who is outdone leads no more (M5)"
            );
        }
    }

    fn check_own(&self) {
        let own = &self.own;
        let me = self.config.seating.me;
        for slot in &own.suggested {
            assert!(
                own.from <= *slot && *slot < own.next && self.lanes().owner(*slot) == me,
                "own suggestions are behind what earlier starts reserved, {slot:?} (M4)"
            );
        }
        assert!(
            self.is_silent || own.next <= own.reserved.max(own.from),
            "own slots are reserved before they are used (M4)"
        );
        assert!(
            own.settled <= own.next.max(own.from) && own.reserved_durable <= own.reserved,
            "what is skipped counts once that is durable (M4)"
        );
    }
}
