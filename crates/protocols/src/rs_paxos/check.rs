//! What one replica can see of the invariants.

use super::Replica;
use super::role::{Instance, Role};
use crate::shared::rejoins::Rejoins;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        for (offset, instance) in self.slots.iter().enumerate() {
            let accepted = instance.accepted.as_ref();
            assert!(
                accepted.is_none_or(|proposal| proposal.ballot <= self.promised),
                "nothing is accepted above the promise (I4)"
            );
            assert!(
                accepted.is_none_or(|proposal| !proposal.fragments.is_empty()),
                "what is accepted was accepted under a code (I3)"
            );
            assert!(
                accepted.is_some() || !instance.is_chosen,
                "what is chosen here was accepted here"
            );
            assert!(
                offset > 0 || !self.is_chosen(self.ap, instance),
                "what can be delivered is delivered"
            );
        }
        assert_eq!(self.large_offers, self.count_large_offers());
        for offer in &self.offers {
            let id = offer.entry.id;
            assert!(
                !self.done.entries.contains(id),
                "an own entry under way is not delivered"
            );
        }
        let waits = self.may_form(false) || self.may_form(true);
        assert!(!waits, "what may be sent does not wait");
        self.check_role();
    }

    fn check_role(&self) {
        let is_own = self.promised.node == self.config.seating.my_id();
        match &self.role {
            Role::Follower | Role::Canvassing { .. } => {}
            Role::Candidate(_) => assert!(is_own && self.is_voting(), "stands in an own ballot"),
            Role::Leader(leader) => {
                assert!(is_own && self.is_voting(), "leads an own ballot");
                assert!(leader.since <= self.ap && self.ap <= leader.next);
                let open = leader
                    .next
                    .0
                    .saturating_sub(self.ap.0.max(leader.recovered.0));
                assert!(
                    open <= self.config.window as u64,
                    "proposes within the window (I9)"
                );
                assert!(
                    self.slots.len() as u64 <= leader.next.0 - self.ap.0,
                    "nobody else proposes in an own ballot"
                );
                self.slots.iter().for_each(|slot| self.check_proposal(slot));
            }
        }
    }

    /// What a leader proposed, it can send again; and its fragments add up by code.
    fn check_proposal(&self, instance: &Instance) {
        let accepted = instance.accepted.as_ref();
        let own = accepted.filter(|accepted| accepted.ballot == self.promised);
        let Some(own) = own.filter(|_| !instance.is_chosen) else {
            return;
        };
        assert!(own.is_whole(), "a leader has what it proposes");
        assert!(!instance.tallies.is_empty(), "a proposal is counted");
        for tally in &instance.tallies {
            assert!(tally.code <= self.config.code_max, "a code of this epoch");
            assert!(
                own.fragments.had(tally.code),
                "a leader accepts what it proposes"
            );
            let enough = self.config.thresholds.write_of(tally.code);
            assert!(
                tally.acks.len() < enough,
                "what QW(X) members accepted under one code is chosen (I3)"
            );
        }
        let codes = instance.tallies.windows(2);
        let mut codes = codes.map(|pair| (pair[0].code, pair[1].code));
        assert!(
            codes.all(|(first, then)| then < first),
            "codes only shrink within a ballot"
        );
    }
}
