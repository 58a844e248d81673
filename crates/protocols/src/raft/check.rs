//! What one replica can see of the invariants.

use super::Replica;
use super::role::Role;
use crate::shared::rejoins::Rejoins;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        let mut latest = 0;
        for (slot, entry) in self.log.iter() {
            assert!(latest <= entry.term, "terms ascend, at {slot:?} (R3)");
            assert!(
                entry.term <= self.term,
                "nothing is in the log of a later term than the own (R7)"
            );
            latest = entry.term;
        }
        assert!(
            self.log.len() <= self.config.slots_max + 1,
            "a log is bounded"
        );
        for entry in self.offers.entries() {
            assert!(
                !self.done.entries.contains(entry.id),
                "an own entry under way is not delivered"
            );
        }
        assert!(!self.may_form_entry(), "what may be sent does not wait");
        self.disk.check();
        self.check_role();
    }

    fn check_role(&self) {
        let is_own = self.voted_for == Some(self.config.seating.me) && self.is_voting();
        match &self.role {
            Role::Follower | Role::Canvassing { .. } => {}
            Role::Candidate(_) => assert!(is_own, "a candidate votes for itself (R1)"),
            Role::Leader(leader) => {
                assert!(is_own, "a leader voted for itself (R1)");
                let mut matched = leader.matched();
                assert!(
                    matched.all(|end| end <= self.log.end()),
                    "no log is known beyond the own end (R2)"
                );
                for (slot, entry) in self.log.iter() {
                    assert_eq!(
                        entry.term == self.term,
                        slot >= leader.noop,
                        "a leader appends behind what it found (R2)"
                    );
                }
            }
        }
    }
}
