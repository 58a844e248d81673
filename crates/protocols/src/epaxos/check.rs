//! What one replica can see of the invariants.

use super::Replica;
use super::mutants::Fault;
use super::state::{Instance, Lead, Phase};
use crate::shared::ballot::Ballot;
use quorate_core::EntryId;
use std::collections::BTreeSet;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        for (id, instance) in &self.instances {
            assert!(
                !self.done.entries.contains(*id),
                "what is delivered is not kept, {id:?} (E6)"
            );
            self.check_instance(*id, instance);
        }
        let gone = BTreeSet::new();
        assert!(
            self.graph(&gone).next_run(self.table.roots()).is_empty() || self.fault(Fault::AnyRoot),
            "what has its place is delivered (E6)"
        );
        for id in &self.ahead {
            let known = self.instances.get(id);
            assert!(
                known.is_some_and(Instance::is_committed),
                "what is executed ahead is decided, {id:?} (E5)"
            );
        }
        for offer in &self.offers {
            let known = self.instances.get(&offer.id);
            assert!(
                known.is_some_and(|known| !known.is_committed() || !known.is_void),
                "an own entry under way may be ordered, {:?}",
                offer.id
            );
        }
        self.check_held();
        let me = self.config.seating.me;
        assert!(
            self.durable[me] <= self.next,
            "what is durable is delivered"
        );
        self.disk.check();
        if self.is_silent {
            assert!(
                self.instances
                    .values()
                    .all(|known| known.ballot == Ballot::default()),
                "who lost its promises makes none"
            );
        }
    }

    /// What is held has no instance, or one that waits for it.
    fn check_held(&self) {
        let is_queueing = self.config.queueing.is_some();
        for id in self.queue.held.ids() {
            assert!(is_queueing, "entries are held with `toq_us` alone, {id:?}");
            let known = self.instances.get(&id);
            let is_kept = known.is_some_and(|known| known.phase == Phase::PreAccepted);
            assert!(!is_kept, "what is kept is not held, {id:?}");
            let is_own = id.origin == self.config.seating.my_id();
            let waits = known.is_some_and(|known| known.is_coordinating && known.entry.is_none());
            assert!(
                !is_own || waits,
                "what is held here has an instance, {id:?}"
            );
        }
    }

    /// Where entries are held, those who keep one name its fast quorum, and what they found is what they go on with.
    fn check_kept(&self, id: EntryId, instance: &Instance) {
        if self.config.queueing.is_none() {
            return assert!(instance.quorum.is_empty(), "nobody names a quorum, {id:?}");
        }
        assert_eq!(
            instance.quorum.len(),
            self.config.thresholds.fast,
            "a fast quorum is named, {id:?} (E1)"
        );
        let is_of_coordinator = instance.ballot == Ballot::default();
        assert!(
            !is_of_coordinator || instance.initial.as_ref() == Some(&instance.deps),
            "what a member found is what it goes on with, {id:?} (E2)"
        );
    }

    fn check_instance(&self, id: EntryId, instance: &Instance) {
        assert!(
            instance.accepted <= instance.ballot,
            "what is accepted is joined, {id:?} (E3)"
        );
        assert!(
            instance.deps.ids.iter().all(|dep| *dep != id),
            "nothing is behind itself, {id:?}"
        );
        let has_value = instance.phase == Phase::Accepted && !instance.is_void;
        assert!(
            !has_value || instance.entry.is_some(),
            "what is accepted is here, {id:?} (E1)"
        );
        if instance.phase == Phase::PreAccepted {
            let has_initial = instance.initial.is_some() && instance.entry.is_some();
            assert!(has_initial, "what is kept has initial dependencies, {id:?}");
            self.check_kept(id, instance);
        }
        let is_in_force = match &instance.lead {
            Lead::None => true,
            Lead::PreAccepting(_) => instance.is_coordinating,
            Lead::Accepting(accepting) => accepting.ballot == instance.ballot,
            Lead::Recovering(_) | Lead::Validating(_) => instance.leads_at == instance.ballot,
        };
        assert!(is_in_force, "who is outdone leads no more, {id:?} (E3)");
        assert!(
            !instance.is_committed() || !instance.is_led(),
            "what is decided is not asked about, {id:?} (E1)"
        );
    }
}
