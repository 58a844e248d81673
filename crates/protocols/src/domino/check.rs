//! What one replica can see of the invariants.

use super::Replica;
use super::lanes::{Lane, Lead};
use super::messages::Stamp;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        for lane in &self.lanes {
            self.check_lane(lane);
        }
        let waits = self.waits.keys().next();
        assert!(
            waits.is_none_or(|first| *first > self.walk),
            "nothing waits at what is delivered"
        );
        assert!(
            self.own.last <= self.reserved.max(self.own.from) || self.is_silent,
            "own stamps are reserved (D2)"
        );
        let used = self.own.used.last().copied().unwrap_or_default();
        assert!(used <= self.own.last, "own stamps do not descend (D1)");
        let is_done = |id| self.done.entries.contains(id);
        assert!(
            !self.clients.offers.entries().any(|entry| is_done(entry.id)),
            "an own entry under way is not delivered"
        );
        self.disk.check();
        let may_form = self.clients.may_form_entry(&self.config.batches);
        assert!(!may_form, "what may be sent does not wait");
    }

    fn check_lane(&self, lane: &Lane) {
        let no = lane.no;
        assert!(
            self.walk <= lane.decided,
            "what is delivered is decided, {no:?} (D3)"
        );
        assert!(
            lane.promised <= lane.highest,
            "what is promised was heard of, {no:?}"
        );
        let mut steps = lane.steps.windows(2);
        assert!(
            steps.all(|two| two[0].through < two[1].through && two[0].ballot > two[1].ballot),
            "what was accepted later reaches less far, by higher ballots, {no:?} (D1)"
        );
        let first = lane.steps.first().map(|step| step.ballot);
        assert!(
            first <= Some(lane.promised),
            "nothing is accepted above a promise, {no:?} (D1)"
        );
        for (stamp, held) in &lane.held {
            assert!(
                *stamp > self.walk,
                "nothing is held of what is delivered, {no:?}"
            );
            assert!(
                held.ballot <= lane.promised,
                "no vote is above a promise, {no:?} (D1)"
            );
            assert!(
                lane.body(*stamp, held.id).is_some(),
                "an entry that has a vote is here, {no:?} {stamp:?}"
            );
        }
        if let Some(round) = lane.round {
            assert!(
                self.said
                    .is_none_or(|said| said.ballot != round.ballot || said.nat <= round.nat),
                "no accept time never falls (D2)"
            );
        }
        match &lane.lead {
            Lead::None => {}
            Lead::Preparing(phase) => assert!(
                phase.ballot == lane.promised && !self.is_silent,
                "a candidate has promised its own ballot, {no:?}"
            ),
            Lead::Leading(leading) => {
                assert!(
                    leading.ballot == lane.promised && !self.is_silent,
                    "a leader has promised its own ballot, {no:?}"
                );
                let accepted = lane.accepted_of(leading.ballot).unwrap_or_default();
                let is_even = accepted == leading.asked || leading.asked == Stamp(0);
                assert!(is_even, "a leader accepts what it asks for, {no:?}");
            }
        }
    }
}
