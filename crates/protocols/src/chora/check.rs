//! The invariants that one replica can see.

use super::Replica;
use super::role::Role;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        self.log.check();
        assert!(
            self.ap() <= self.verified,
            "what is committed is verified (J5)"
        );
        assert!(
            self.verified <= self.log.end(),
            "what is verified is here (J5)"
        );
        assert!(
            self.traffic.claim <= self.ap(),
            "what is claimed is held (J5)"
        );
        assert!(
            self.disk.end() <= self.log.end(),
            "what is durable is here (J8)"
        );
        for (slot, logged) in &self.pending {
            assert!(*slot >= self.verified, "what is verified does not wait");
            assert_eq!(*slot, logged.slot);
        }
        assert_eq!(
            self.worth_until(),
            self.verified,
            "what can be verified is, if it holds anything"
        );
        for offer in &self.clients.open {
            assert!(
                offer.is_handed_on || !self.clients.are_handed_on,
                "an own entry waits to be handed on"
            );
            let is_done = self.done.entries.contains(offer.entry.id);
            assert!(!is_done, "an own entry under way is not committed");
        }
        assert!(
            self.rounds.is_pulsing() || !self.may_form_entry(),
            "what may be sent does not wait, but for a round"
        );
        self.check_view();
    }

    fn check_view(&self) {
        let is_own = self.voted == Some(self.config.me) && self.is_voting();
        match self.role {
            Role::Follower | Role::Canvassing { .. } => {}
            Role::Candidate { .. } => {
                assert!(is_own && self.init.is_none(), "stands in its own view");
            }
            Role::Initiator => assert!(is_own, "began its own view (J2)"),
        }
        let Some(init) = &self.init else { return };
        assert_eq!(init.view, self.view, "the pattern in force is this view's");
        assert_eq!(self.start, Some(init.start()));
        if self.may_propose() {
            assert!(self.ap() >= init.start(), "VIEW-INIT is committed (J9)");
            let owner = init.owner(self.own.next);
            assert_eq!(
                owner,
                Some(self.config.me),
                "the next slot is an own one (J9)"
            );
        }
    }
}
